#include "lib/meaning/bounce/from_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/config/expand.h"
#include "lib/mail/error_class.h"
#include "lib/mail/named_address.h"

namespace pen::bounce {
namespace {

constexpr std::string_view kOurName = "Mail Delivery System";

/// The value of delay_warning_time_hours and similar names, in whole units, rounded up.
std::optional<std::string> time_in_units(const config::Settings& s, std::string_view name) {
  const auto in_units = [&](std::string_view prefix, milliseconds time) -> std::optional<std::string> {
    if (!name.starts_with(prefix)) return std::nullopt;
    const auto unit = name.substr(prefix.size());
    const std::int64_t of = unit == "seconds"   ? 1
                            : unit == "minutes" ? 60
                            : unit == "hours"   ? 3600
                            : unit == "days"    ? 86'400
                            : unit == "weeks"   ? 604'800
                                                : 0;
    if (of == 0) return std::nullopt;
    return std::to_string((std::chrono::ceil<seconds>(time).count() + of - 1) / of);
  };
  auto text = in_units("delay_warning_time_", s.delay_warning_time);
  return text ? text : in_units("maximal_queue_lifetime_", s.maximal_queue_lifetime);
}

std::optional<std::string> value_of(const config::Config& config, std::string_view name) {
  auto text = time_in_units(config.settings(), name);
  return text ? text : config.written(name);
}

/// Returns the error; empty: none.
std::string expand_text(const config::Config& config, mail::NoticeTemplate& t) {
  for (const auto& use : config::names_in(t.text)) {
    if (!use.tested && !value_of(config, use.name))
      return fmt::format("${}: there is no setting of that name ($$ is a dollar sign)", printable(use.name, 60));
  }
  auto done = config::expand(t.text, [&](std::string_view name) { return value_of(config, name); });
  if (done.error.empty()) t.text = std::move(done.text);
  return std::move(done.error);
}

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail_errno("open", errno != 0 ? errno : EIO);
  std::string text(mail::kMaxTemplateFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return fail_errno("read", EIO);
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

Result<mail::NoticeTemplates> expanded(const config::Config& config, mail::NoticeTemplates t) {
  const std::pair<std::string_view, mail::NoticeTemplate*> all[] = {{"failure_template", &t.failure},
                                                                    {"delay_template", &t.delay},
                                                                    {"success_template", &t.success},
                                                                    {"verify_template", &t.verify}};
  for (const auto& [name, one] : all) {
    if (auto error = expand_text(config, *one); !error.empty())
      return fail(mail::TemplateError::bad_template, fmt::format("{}: {}", name, error));
  }
  return t;
}

Result<mail::NoticeTemplates> load(const std::string& path) {
  PEN_TRY_ASSIGN(const auto text, read_file(path));
  return mail::parse_notice_templates(text);
}

}  // namespace

Result<PostmasterCopies> copies_from(const config::Settings& settings) {
  PEN_TRY_ASSIGN(const auto told, mail::parse_error_classes(settings.notify_classes));
  PostmasterCopies copies;
  if (told.has(mail::ErrorClass::bounce)) copies.failures = settings.bounce_notice_recipient;
  if (told.has(mail::ErrorClass::delay)) copies.delays = settings.delay_notice_recipient;
  if (told.has(mail::ErrorClass::double_bounce)) copies.failing_notices = settings.double_bounce_notice_recipient;
  return copies;
}

Result<mail::NoticeTemplates> templates_from(const config::Config& config) {
  const std::string& path = config.settings().bounce_template_file;
  if (path.empty()) return builtin_templates(config);
  PEN_TRY_ASSIGN(auto written, written_templates(config));
  auto done = expanded(config, std::move(written));
  if (!done) return std::unexpected(std::move(done.error()).within("bounce_template_file: " + path));
  return done;
}

Result<mail::NoticeTemplates> written_templates(const config::Config& config) {
  const std::string& path = config.settings().bounce_template_file;
  if (path.empty()) return mail::builtin_notice_templates();
  auto loaded = load(path);
  if (!loaded) return std::unexpected(std::move(loaded.error()).within("bounce_template_file: " + path));
  return loaded;
}

mail::NoticeTemplates builtin_templates(const config::Config& config) {
  auto templates = expanded(config, mail::builtin_notice_templates());
  PEN_CHECK(templates.has_value(), "the built-in templates name settings that exist");
  return *std::move(templates);
}

NoticeForm notice_form(const config::Config& config) {
  const config::Settings& s = config.settings();
  NoticeForm form{.settings = {.hostname = s.myhostname,
                               .origin = s.myorigin,
                               .mail_name = s.mail_name,
                               .size_limit = static_cast<std::uint64_t>(s.bounce_size_limit),
                               .redact_requiretls = s.requiretls_redact_dsn,
                               .from = mail::named_address(kOurName, "MAILER-DAEMON",
                                                           s.header_from_format == config::FromFormat::obsolete),
                               .threaded = s.enable_threaded_bounces},
                  .problem = {}};
  form.settings.plain = builtin_templates(config);
  auto templates = templates_from(config);
  if (!templates) form.problem = templates.error().message() + "; notices have the built-in text";
  form.settings.templates = templates ? *std::move(templates) : form.settings.plain;
  return form;
}

}  // namespace pen::bounce
