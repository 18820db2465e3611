#include "tools/service_commands.h"

#include <paths.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/config/transport_use.h"
#include "lib/meaning/pipe/options.h"
#include "lib/meaning/spawn/options.h"
#include "lib/send/mailbox/command_account.h"
#include "lib/send/mailbox/start_helper.h"
#include "lib/suite/service/setup.h"
#include "tools/table_entries.h"

namespace pen::tools {
namespace {

using config::Severity;

bool can_run(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

/// As execvp() finds it with the PATH that commands have. root: chroot= of pipe.
bool is_there(const std::string& command, const std::string& root) {
  if (command.contains('$')) return true;  // found out with each message
  if (command.contains('/')) return can_run(root + command);
  return std::ranges::any_of(split(_PATH_DEFPATH, ":"), [&](std::string_view directory) {
    return can_run(root + std::string(directory) + "/" + command);
  });
}

class Commands {
 public:
  explicit Commands(const config::Config& config)
      : config_(config), owners_(service::wanted_owners(config.settings())) {}

  config::Problems find() {
    for (const config::Service& service : config_.master()) {
      service_ = &service;
      if (service.command == "pipe") look(pipes::parse_options(service.arguments), "mail came for it", gets_mail());
      if (service.command == "spawn")
        look(spawner::parse_options(service.arguments), "somebody connected",
             service.type == config::ServiceType::inet || is_asked());
    }
    return std::move(found_);
  }

 private:
  template <class Options>
  void look(const Options& options, const std::string& when, bool used) {
    const std::string start = "service " + service_->label() + " would not start if " + when + ": ";
    if (!options) return say(Severity::warning, start + options.error());
    if (owners_) {
      const auto who = mailbox::command_account(options->user, options->group,
                                                mailbox::mail_accounts(config_.settings(), *owners_), service_->name);
      if (!who) say(Severity::note, start + who.error().context());
    }
    std::string root;
    if constexpr (requires { options->root; }) root = options->root;
    if (!is_there(options->argv.front(), root))
      say(used ? Severity::warning : Severity::note,
          "argv=" + printable(options->argv.front(), 200) + (root.empty() ? "" : " below " + printable(root, 200)) +
              " is not there or cannot be run: " +
              (service_->command == "pipe" ? "mail for this service would wait" : "who connects gets no answer"));
  }

  void say(Severity severity, std::string text) {
    found_.push_back({severity, config_.master_file(), service_->line, {}, std::move(text)});
  }

  bool gets_mail() const {
    const std::string to = service_->name + ":";
    const auto leads_here = [&](std::string_view route) { return route == service_->name || route.starts_with(to); };
    if (config::transport_is_used(config_.settings(), service_->name)) return true;
    for (const char* setting : {"transport_maps", "sender_dependent_default_transport_maps", "mailbox_transport_maps",
                                "fallback_transport_maps"})
      for (const PlacedEntry& entry :
           table_entries(config_, config_.list(setting).value_or(std::vector<std::string>())))
        if (leads_here(entry.value)) return true;
    return is_named([&](std::string_view item) { return leads_here(item); }, {"content_filter"});
  }

  /// Whether a setting names its socket.
  bool is_asked() const {
    const std::string path = (service_->is_private ? "private/" : "public/") + service_->name;
    return is_named(
        [&](std::string_view item) {  // perhaps { unix:private/x, timeout = 5s }
          const auto at = item.find(path);
          return at != std::string_view::npos && item.substr(at + path.size()).find_first_not_of(", }") != 0;
        },
        {});
  }

  /// Whether an item of these settings, or of any, fits: in main.cf or in what a service sets.
  template <class Fits>
  bool is_named(const Fits& fits, std::vector<std::string> settings) const {
    const bool any = settings.empty();
    if (any) settings = {config_.names_set().begin(), config_.names_set().end()};
    const auto in = [&](const std::string& value) { return std::ranges::any_of(split_list(value), fits); };
    for (const std::string& name : settings)
      if (in(config_.text(name).value_or(""))) return true;
    for (const config::Service& other : config_.master())
      for (const config::Assignment& o : other.overrides)
        if ((any || std::ranges::find(settings, o.name) != settings.end()) && in(o.value)) return true;
    return false;
  }

  const config::Config& config_;
  Result<service::Owners> owners_;
  const config::Service* service_ = nullptr;
  config::Problems found_;
};

}  // namespace

config::Problems command_problems(const config::Config& config) { return Commands(config).find(); }

}  // namespace pen::tools
