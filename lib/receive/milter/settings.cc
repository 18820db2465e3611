#include "lib/receive/milter/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lib/base/network.h"
#include "lib/base/tcp_port.h"
#include "lib/base/text.h"
#include "lib/config/values.h"
#include "lib/mail/address.h"
#include "lib/receive/intake/from_settings.h"

namespace pen::milter {
namespace {

std::unexpected<Error> bad(std::string what) { return fail(MilterError::bad_setting, std::move(what)); }

Result<DefaultAction> parse_action(std::string_view word) {
  struct Row {
    std::string_view word;
    DefaultAction action;
  };
  static constexpr Row kRows[] = {{"accept", DefaultAction::accept},
                                  {"reject", DefaultAction::reject},
                                  {"tempfail", DefaultAction::tempfail},
                                  {"shutdown", DefaultAction::shutdown},
                                  {"quarantine", DefaultAction::quarantine}};
  for (const Row& row : kRows)
    if (row.word == word) return row.action;
  return bad(fmt::format("default_action \"{}\" is not accept, reject, tempfail, shutdown or quarantine", word));
}

/// "6", or "4 no_header_reply".
Result<Offer> parse_protocol(std::string_view text) {
  Offer offer;
  bool versioned = false;
  for (const auto word : split(text)) {
    const auto number = parse_unsigned(word);
    if (number && (*number == 2 || *number == 3 || *number == 4 || *number == 6) && !versioned) {
      offer.version = static_cast<std::uint32_t>(*number);
      versioned = true;
    } else if (word == "no_header_reply") {
      offer.no_header_reply = true;
    } else {
      return bad(fmt::format("protocol \"{}\" is not 2, 3, 4 or 6, with or without no_header_reply", text));
    }
  }
  if (!versioned) return bad("protocol without a version");
  return offer;
}

Result<milliseconds> parse_timeout(std::string_view name, std::string_view text) {
  const auto time = config::parse_time(text, 's');
  if (!time || *time <= milliseconds(0)) return bad(fmt::format("{} \"{}\" is not a time", name, text));
  return *time;
}

Result<void> set_option(Filter& filter, std::string_view name, std::string_view value) {
  if (name == "connect_timeout") {
    PEN_TRY_ASSIGN(filter.connect_timeout, parse_timeout(name, value));
  } else if (name == "command_timeout") {
    PEN_TRY_ASSIGN(filter.command_timeout, parse_timeout(name, value));
  } else if (name == "content_timeout") {
    PEN_TRY_ASSIGN(filter.content_timeout, parse_timeout(name, value));
  } else if (name == "default_action") {
    PEN_TRY_ASSIGN(filter.default_action, parse_action(value));
  } else if (name == "protocol") {
    PEN_TRY_ASSIGN(filter.offer, parse_protocol(value));
  } else {
    return bad(fmt::format("{}: unknown option", name));
  }
  return {};
}

/// "inet:host:port", "inet:port", "unix:path" or "local:path".
Result<void> set_endpoint(Filter& filter, std::string_view text, const std::string& directory) {
  filter.name = text;
  auto address =
      helper::ServerAddress::parse(text, {.directory = directory, .default_host = "localhost", .local = true});
  if (!address) return bad(fmt::format("{}: {}", text, address.error()));
  filter.address = *std::move(address);
  return {};
}

Result<std::shared_ptr<const Filter>> parse_filter(std::string_view item, const Filter& usual,
                                                   const std::string& directory) {
  auto filter = std::make_shared<Filter>(usual);
  const bool braced = item.starts_with('{');
  if (braced && !item.ends_with('}')) return bad(fmt::format("{}: no closing brace", item));
  const std::vector<std::string> words =
      braced ? split_list(trim(item.substr(1, item.size() - 2))) : std::vector<std::string>{std::string(item)};
  if (words.empty()) return bad("{ } without an endpoint");
  PEN_TRY(set_endpoint(*filter, words.front(), directory));
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    std::string_view text = *word;
    if (text.starts_with('{') && text.ends_with('}')) text = trim(text.substr(1, text.size() - 2));
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) return bad(fmt::format("{}: {}: not name=value", filter->name, text));
    auto set = set_option(*filter, trim(text.substr(0, equals)), trim(text.substr(equals + 1)));
    if (!set) return fail(std::move(set).error().within(filter->name));
  }
  return filter;
}

/// milter_macro_defaults: "name=value" and "{ name=value }".
Result<std::map<std::string, std::string, std::less<>>> parse_defaults(std::string_view text) {
  std::map<std::string, std::string, std::less<>> out;
  for (const std::string& item : split_list(text)) {
    std::string_view pair = item;
    if (pair.starts_with('{') && config::group_end(pair) == pair.size()) pair = trim(pair.substr(1, pair.size() - 2));
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) return bad(fmt::format("{}: not name=value", item));
    std::string_view name = trim(pair.substr(0, equals));
    if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
    out[std::string(name)] = trim(pair.substr(equals + 1));
  }
  return out;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  for (const auto word : split(text)) out.emplace_back(word);
  return out;
}

}  // namespace

Result<Filters> Settings::parse_list(std::string_view text) const {
  Filters out;
  if (iequals(trim(text), "DISABLE")) return out;
  for (const std::string& item : split_list(text)) {
    PEN_TRY_ASSIGN(auto filter, parse_filter(item, usual, queue_directory));
    out.push_back(std::move(filter));
  }
  return out;
}

Result<std::shared_ptr<const Settings>> Settings::read(const config::Settings& s, const map::OpenOptions& open,
                                                       Clients clients) {
  auto out = std::make_shared<Settings>();
  const auto named = [](auto result, const char* name) {
    if (!result) result = fail(std::move(result).error().within(name));
    return result;
  };
  out->queue_directory = s.queue_directory;
  out->usual.connect_timeout = s.milter_connect_timeout;
  out->usual.command_timeout = s.milter_command_timeout;
  out->usual.content_timeout = s.milter_content_timeout;
  out->usual.total_timeout = s.milter_total_timeout;
  PEN_TRY_ASSIGN(out->usual.default_action, named(parse_action(s.milter_default_action), "milter_default_action"));
  PEN_TRY_ASSIGN(out->usual.offer, named(parse_protocol(s.milter_protocol), "milter_protocol"));
  out->soft_bounce = s.soft_bounce;
  out->size_limit = static_cast<std::uint64_t>(s.message_size_limit);
  if (intake::receive_steps(s.receive_override_options).milters) {
    PEN_TRY_ASSIGN(out->smtpd, named(out->parse_list(s.smtpd_milters), "smtpd_milters"));
    PEN_TRY_ASSIGN(out->other, named(out->parse_list(s.non_smtpd_milters), "non_smtpd_milters"));
    if (clients == Clients::smtp) {
      constexpr const char* kName = "smtpd_milter_maps";
      PEN_TRY_ASSIGN(out->by_client, named(map::MapList::open(s.smtpd_milter_maps, open.of(kName)), kName));
    }
  }
  const auto list = [&](Stage stage, const std::string& text) {
    out->macros[static_cast<std::size_t>(stage)] = words_of(text);
  };
  list(Stage::connect, s.milter_connect_macros);
  list(Stage::helo, s.milter_helo_macros);
  list(Stage::mail, s.milter_mail_macros);
  list(Stage::rcpt, s.milter_rcpt_macros);
  list(Stage::data, s.milter_data_macros);
  list(Stage::end_of_header, s.milter_end_of_header_macros);
  list(Stage::end_of_message, s.milter_end_of_data_macros);
  list(Stage::unknown, s.milter_unknown_command_macros);
  PEN_TRY_ASSIGN(out->defaults, named(parse_defaults(s.milter_macro_defaults), "milter_macro_defaults"));
  out->daemon_name = s.milter_macro_daemon_name;
  out->version = s.milter_macro_v;
  if (!trim(s.milter_header_checks).empty()) {
    intake::CheckTables::Specs specs;
    specs.header = specs.mime = s.milter_header_checks;
    specs.prefix = "milter_";
    specs.open = open.of("milter_header_checks");
    PEN_TRY_ASSIGN(out->header_checks, intake::CheckTables::open(specs));
  }
  return out;
}

}  // namespace pen::milter
