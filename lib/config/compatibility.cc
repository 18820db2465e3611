#include "lib/config/compatibility.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen::config {
namespace {

// cleanup(8), CONFIGURATION PARAMETERS; without those that smtpd itself reads for another purpose.
constexpr std::string_view kCleanupSettings[] = {
    "always_add_missing_headers",
    "always_bcc",
    "append_at_myorigin",
    "append_dot_mydomain",
    "body_checks",
    "body_checks_size_limit",
    "canonical_classes",
    "canonical_maps",
    "disable_mime_input_processing",
    "empty_address_recipient",
    "enable_original_recipient",
    "force_mime_input_conversion",
    "header_checks",
    "header_from_format",
    "header_size_limit",
    "hopcount_limit",
    "masquerade_classes",
    "masquerade_domains",
    "masquerade_exceptions",
    "message_drop_headers",
    "message_reject_characters",
    "message_strip_characters",
    "mime_boundary_length_limit",
    "mime_header_checks",
    "mime_nesting_limit",
    "nested_header_checks",
    "propagate_unmatched_extensions",
    "recipient_bcc_maps",
    "recipient_canonical_classes",
    "recipient_canonical_maps",
    "remote_header_rewrite_domain",
    "sender_bcc_maps",
    "sender_canonical_classes",
    "sender_canonical_maps",
    "strict_7bit_headers",
    "strict_8bitmime",
    "strict_8bitmime_body",
    "strict_mime_encoding_domain",
    "undisclosed_recipients_header",
    "virtual_alias_expansion_limit",
    "virtual_alias_maps",
    "virtual_alias_recursion_limit",
};

constexpr std::array<std::string_view, 8> kTakesMailIn = {"smtpd", "pickup", "qmqpd",    "bounce",
                                                          "local", "tlsrpt", "dmarcrpt", "verify"};

/// Adds problems of one file; line 0: about the whole file.
struct Teller {
  const std::string& file;
  Problems& problems;
  void operator()(Severity severity, int line, std::string name, std::string text) const {
    problems.push_back({severity, file, line, std::move(name), std::move(text)});
  }
};

bool manages_queue(const Service& service) { return service.command == "qmgr" || service.command == "oqmgr"; }

void adapt_fifo(Service& service, const Teller& tell) {
  const bool of_old = manages_queue(service) || service.command == "pickup";
  if (service.type != ServiceType::fifo || !of_old) return;
  service.type = ServiceType::unix_stream;
  tell(Severity::note, service.line, service.label(), "type fifo, as before Postfix 2.11, is taken as unix");
}

void adapt_postscreen(Service& service, const std::vector<Service>& all, const std::string& handed_to,
                      const Teller& tell) {
  if (service.type != ServiceType::inet || service.command != "postscreen") return;
  std::string lost;
  std::vector<Assignment> own;
  for (Assignment& a : service.overrides) {
    if (a.name.starts_with("postscreen_") || a.name == "respectful_logging")
      own.push_back(std::move(a));
    else if (a.name != "smtpd_service_name")
      lost += (lost.empty() ? "" : ", ") + a.name;
  }
  service.command = "smtpd";
  service.overrides.clear();
  service.arguments.clear();
  service.process_limit.reset();
  const auto behind = std::ranges::find_if(all, [&](const Service& s) {
    return s.type == ServiceType::pass && s.name == handed_to && s.command == "smtpd";
  });
  std::string settings = "master.cf has no service " + printable(handed_to, 60) + "/pass, so those of main.cf";
  if (behind != all.end()) {
    service.overrides = behind->overrides;
    service.arguments = behind->arguments;
    service.process_limit = behind->process_limit;
    service.unprivileged = behind->unprivileged;
    settings = "those of " + behind->label();
  }
  service.arguments.emplace(service.arguments.begin(), kScreens);
  service.overrides.insert(service.overrides.end(), own.begin(), own.end());
  const bool incomplete = behind == all.end() || !lost.empty();
  tell(incomplete ? Severity::warning : Severity::note, service.line, service.label(),
       "smtpd itself tests clients as postscreen does, and serves those that pass in the same session, with these "
       "settings: " +
           settings + (lost.empty() ? "" : "; without effect are its own -o: " + lost));
}

void adapt_chroot(std::vector<Service>& services, const Teller& tell) {
  std::size_t count = 0;
  const Service* first = nullptr;
  for (Service& service : services) {
    if (!std::exchange(service.chroot, false)) continue;
    ++count;
    if (!first) first = &service;
  }
  if (first)
    tell(Severity::warning, first->line, "chroot",
         "y is taken as n in " + std::to_string(count) + (count == 1 ? " service" : " services") +
             ": no program is confined to queue_directory, where it could not read tables and "
             "certificates when they change");
}

}  // namespace

void adapt_services(std::vector<Service>& services, const std::function<std::string(const Service&)>& handed_to,
                    const std::string& file, Problems& problems) {
  const Teller tell{file, problems};
  for (Service& service : services) {
    adapt_fifo(service, tell);
    adapt_postscreen(service, services, handed_to(service), tell);
  }
  adapt_chroot(services, tell);
  for (const Service& service : services)
    if (is_second_queue_manager(services, service))
      tell(Severity::warning, service.line, service.label(), std::string(kSecondQueueManager));
}

const Service* queue_manager(const std::vector<Service>& services) {
  const Service* first = nullptr;
  for (const Service& service : services) {
    if (!manages_queue(service)) continue;
    if (service.name == "qmgr") return &service;
    if (first == nullptr) first = &service;
  }
  return first;
}
bool is_second_queue_manager(const std::vector<Service>& services, const Service& service) {
  return manages_queue(service) && queue_manager(services) != &service;
}

std::span<const std::string_view> cleanup_settings() { return kCleanupSettings; }

bool takes_mail_in(const Service& service) {
  return std::ranges::find(kTakesMailIn, service.command) != kTakesMailIn.end();
}

bool one_recipient_only(const Service& service) {
  if (service.command != "pipe") return false;
  return std::ranges::any_of(service.arguments, [](std::string_view word) {
    return word.starts_with("flags=") && word.find_first_of("DO") != std::string_view::npos;
  });
}

}  // namespace pen::config
