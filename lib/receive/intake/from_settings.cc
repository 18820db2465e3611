#include "lib/receive/intake/from_settings.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/mail/header.h"

namespace pen::intake {

ReceiveSteps receive_steps(const std::vector<std::string>& receive_override_options) {
  ReceiveSteps steps;
  for (const auto& option : receive_override_options) {
    if (iequals(option, "no_unknown_recipient_checks"))
      steps.unknown_recipient_checks = false;
    else if (iequals(option, "no_address_mappings"))
      steps.address_mappings = false;
    else if (iequals(option, "no_header_body_checks"))
      steps.header_body_checks = false;
    else if (iequals(option, "no_milters"))
      steps.milters = false;
    else
      steps.unknown.push_back(option);
  }
  return steps;
}

CheckTables::Specs check_specs(const config::Settings& s) {
  CheckTables::Specs specs;
  specs.header = join(s.header_checks);
  specs.mime = join(s.mime_header_checks);
  specs.nested = join(s.nested_header_checks);
  specs.body = join(s.body_checks);
  specs.strip = s.message_strip_characters;
  specs.reject = s.message_reject_characters;
  specs.strict = {.header = s.strict_7bit_headers || s.strict_8bitmime,
                  .body = s.strict_8bitmime_body || s.strict_8bitmime,
                  .encoding = s.strict_mime_encoding_domain};
  specs.body_size_limit = static_cast<std::uint64_t>(s.body_checks_size_limit);
  specs.walk.mime = !s.disable_mime_input_processing;
  specs.walk.max_line = static_cast<std::size_t>(s.line_length_limit);
  specs.walk.max_boundary = static_cast<std::size_t>(s.mime_boundary_length_limit);
  specs.walk.max_depth = mail::MimeWalker::depth_of(s.mime_nesting_limit);
  specs.open.default_type = s.default_database_type;
  return specs;
}

bool names_class(const std::vector<std::string>& classes, std::string_view word) {
  return std::ranges::any_of(classes, [&](const std::string& c) { return iequals(c, word); });
}

bool detects_smtputf8(const config::Settings& s, std::string_view mail_class) {
  const auto& classes = s.smtputf8_autodetect_classes;
  return s.smtputf8_enable && (names_class(classes, mail_class) || names_class(classes, "all"));
}

OwnMail own_mail(const config::Settings& s, std::string_view mail_class) {
  return {.inspected = names_class(s.internal_mail_filter_classes, mail_class),
          .detect_smtputf8 = detects_smtputf8(s, mail_class)};
}

AnyHostForm::Options signed_form(const config::Settings& s) {
  return {.line_limit = static_cast<std::size_t>(s.smtp.line_length_limit),
          .seven_bit = !s.disable_mime_output_conversion};
}

Settings for_own_mail(const config::Settings& s, std::shared_ptr<const CheckTables> checks) {
  Settings out;
  out.myhostname = s.myhostname;
  out.mail_name = s.mail_name;
  out.myorigin = s.myorigin;
  out.message_size_limit = 0;
  out.hopcount_limit = static_cast<unsigned>(s.hopcount_limit);
  out.checks = std::move(checks);
  return out;
}

namespace {

Result<UnendedHeader> unended_header(std::string_view action) {
  if (iequals(action, "fix_quietly")) return UnendedHeader::fix;
  if (iequals(action, "add_header")) return UnendedHeader::tell;
  if (iequals(action, "reject")) return UnendedHeader::refuse;
  return fail(config::ConfigError::bad_value,
              "non_empty_end_of_header_action = " + printable(action, 100) + ": fix_quietly, add_header or reject");
}

}  // namespace

Result<Settings> from_settings(const config::Settings& s, std::shared_ptr<signing::RemoteKeys> keys) {
  const ReceiveSteps steps = receive_steps(s.receive_override_options);
  Settings out;
  for (const auto& option : steps.unknown) out.warnings.push_back("receive_override_options: unknown option " + option);
  out.myhostname = s.myhostname;
  out.mail_name = s.mail_name;
  out.myorigin = s.myorigin;
  out.message_size_limit = static_cast<std::uint64_t>(s.message_size_limit);
  out.hopcount_limit = static_cast<unsigned>(s.hopcount_limit);
  out.header_field_limit = static_cast<std::size_t>(s.header_field_limit);
  out.tls_required_header = s.tls_required_enable;
  out.require_tls_header = s.requiretls_enable && s.requiretls_esmtp_header;
  PEN_TRY_ASSIGN(out.unended, unended_header(s.non_empty_end_of_header_action));
  out.address_mappings = steps.address_mappings;
  out.drop_fields = s.message_drop_headers;
  out.complete_all_headers = s.always_add_missing_headers;
  out.replace_bare_cr = s.cleanup_replace_stray_cr_lf;
  out.full_name_charset = s.full_name_encoding_charset;
  if (std::ranges::any_of(out.full_name_charset, [](char c) { return !ascii_alnum(c) && c != '-' && c != '_'; })) {
    out.warnings.push_back("full_name_encoding_charset: not the name of a charset, names are not encoded: " +
                           printable(out.full_name_charset, 100));
    out.full_name_charset.clear();
  }
  out.obsolete_from = s.header_from_format == config::FromFormat::obsolete;
  out.remote_domain = s.remote_header_rewrite_domain;
  out.undisclosed = s.undisclosed_recipients_header;
  if (!out.undisclosed.empty() && mail::field_name_length(out.undisclosed) == 0) {
    out.warnings.push_back("undisclosed_recipients_header: not \"name: value\", nothing is added: " +
                           printable(out.undisclosed, 200));
    out.undisclosed.clear();
  }
  out.seven_bit = s.force_mime_input_conversion && !s.disable_mime_input_processing;
  if (s.force_mime_input_conversion && s.disable_mime_input_processing)
    out.warnings.emplace_back("force_mime_input_conversion has no effect with disable_mime_input_processing");
  out.header_size_limit = static_cast<std::size_t>(s.header_size_limit);
  if (steps.header_body_checks) {
    PEN_TRY_ASSIGN(out.checks, CheckTables::open(check_specs(s)));
  }
  PEN_TRY_ASSIGN(out.signing, signing::Signing::open(s, system_clock(), std::move(keys)));
  out.signed_form = signed_form(s);
  if (s.dkim_signing && !out.signing)
    out.warnings.push_back(s.dkim_opendkim_conf + ": Mode is not to sign: no mail is signed");
  if (out.signing)
    for (auto& warning : out.signing->warnings()) out.warnings.push_back(std::move(warning));
  out.content_filter = std::string(trim(s.content_filter));
  out.original_recipient = s.enable_original_recipient;
  out.copies.always = s.always_bcc;
  const auto open = [&](map::MapList& maps, const std::vector<std::string>& value, const char* name) -> Result<void> {
    auto opened = map::MapList::open(join(value), {.default_type = s.default_database_type, .setting = name});
    if (!opened) return fail(std::move(opened).error().within(name));
    maps = *std::move(opened);
    return {};
  };
  PEN_TRY(open(out.copies.by_sender, s.sender_bcc_maps, "sender_bcc_maps"));
  PEN_TRY(open(out.copies.by_recipient, s.recipient_bcc_maps, "recipient_bcc_maps"));
  return out;
}

}  // namespace pen::intake
