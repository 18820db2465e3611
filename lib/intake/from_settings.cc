#include "lib/intake/from_settings.h"

#include "lib/base/text.h"

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
    else if (!iequals(option, "no_milters"))  // there are none
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
  specs.body_size_limit = static_cast<std::uint64_t>(s.body_checks_size_limit);
  specs.walk.mime = !s.disable_mime_input_processing;
  specs.walk.max_line = static_cast<std::size_t>(s.line_length_limit);
  specs.walk.max_boundary = static_cast<std::size_t>(s.mime_boundary_length_limit);
  specs.walk.max_depth = static_cast<std::size_t>(s.mime_nesting_limit);
  specs.open.default_type = s.default_database_type;
  return specs;
}

Result<Settings> from_settings(const config::Settings& s) {
  const ReceiveSteps steps = receive_steps(s.receive_override_options);
  Settings out;
  out.myhostname = s.myhostname;
  out.mail_name = s.mail_name;
  out.myorigin = s.myorigin;
  out.message_size_limit = static_cast<std::uint64_t>(s.message_size_limit);
  out.hopcount_limit = static_cast<unsigned>(s.hopcount_limit);
  out.tls_required_header = s.tls_required_enable;
  out.address_mappings = steps.address_mappings;
  out.drop_fields = s.message_drop_headers;
  out.complete_all_headers = s.always_add_missing_headers;
  out.obsolete_from = s.header_from_format == config::FromFormat::obsolete;
  out.header_size_limit = static_cast<std::size_t>(s.header_size_limit);
  if (steps.header_body_checks) {
    PEN_TRY_ASSIGN(out.checks, CheckTables::open(check_specs(s)));
  }
  out.content_filter = std::string(trim(s.content_filter));
  out.original_recipient = s.enable_original_recipient;
  out.copies.always = s.always_bcc;
  const auto open = [&](map::MapList& maps, const std::vector<std::string>& value,
                        const char* name) -> Result<void> {
    auto opened = map::MapList::open(join(value), {.default_type = s.default_database_type});
    if (!opened) return fail(std::move(opened).error().within(name));
    maps = *std::move(opened);
    return {};
  };
  PEN_TRY(open(out.copies.by_sender, s.sender_bcc_maps, "sender_bcc_maps"));
  PEN_TRY(open(out.copies.by_recipient, s.recipient_bcc_maps, "recipient_bcc_maps"));
  return out;
}

}  // namespace pen::intake
