#include "smtp/rewritten.h"

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/header.h"
#include "lib/map/match_list.h"
#include "lib/receive/resolve/from_settings.h"

namespace pen::smtp {

using intake::Checks;
using intake::CheckTables;

namespace {

Checks::Reporter reporter(std::string queue_id) {
  const auto note = [queue_id](const Checks::Note& n) {
    log::info("{}: {}: {} {}{}{}", queue_id, n.action, n.where, n.content, n.text.empty() ? "" : ": ", n.text);
  };
  const auto warn = [queue_id](const std::string& what) { log::warning("{}: {}", queue_id, what); };
  return {note, warn};
}

}  // namespace

Result<std::shared_ptr<const ContentRules>> open_rules(const config::Settings& s, bool lmtp) {
  const config::ClientSettings& client = s.client(lmtp);
  CheckTables::Specs specs;
  specs.prefix = lmtp ? "lmtp_" : "smtp_";
  specs.header = join(client.header_checks);
  specs.mime = join(client.mime_header_checks);
  specs.nested = join(client.nested_header_checks);
  specs.body = join(client.body_checks);
  specs.body_size_limit = 0;
  specs.walk.max_field = static_cast<std::size_t>(s.header_size_limit);
  specs.walk.max_line = static_cast<std::size_t>(s.line_length_limit);
  specs.walk.max_boundary = static_cast<std::size_t>(s.mime_boundary_length_limit);
  specs.walk.max_depth = mail::MimeWalker::depth_of(s.mime_nesting_limit);
  specs.open.default_type = s.default_database_type;
  auto rules = std::make_shared<ContentRules>();
  rules->walk = specs.walk;
  rules->walk.mime = false;
  PEN_TRY_ASSIGN(rules->checks, CheckTables::open(specs));
  if (const auto& maps = client.generic_maps; !maps.empty()) {
    const std::string name = specs.prefix + "generic_maps";
    resolve::Options options = resolve::from_settings(s);
    options.open.setting = name;
    auto generic = resolve::Generic::open(std::move(options), join(maps));
    if (!generic) return fail(std::move(generic).error().within(name));
    if (generic->blocking()) return fail(intake::CheckError::may_wait, name);
    rules->generic = *std::move(generic);
  }
  if (!rules->checks && !rules->generic) return nullptr;
  return rules;
}

Result<std::shared_ptr<const map::StatusFilter>> open_filter(const config::Settings& s, bool lmtp) {
  const auto& tables = s.client(lmtp).delivery_status_filter;
  if (tables.empty()) return nullptr;
  map::OpenOptions options;
  options.default_type = s.default_database_type;
  options.setting = lmtp ? "lmtp_delivery_status_filter" : "smtp_delivery_status_filter";
  PEN_TRY_ASSIGN(auto filter, map::StatusFilter::open(tables, options));
  if (filter.blocking())
    return fail(intake::CheckError::may_wait, lmtp ? "lmtp_delivery_status_filter" : "smtp_delivery_status_filter");
  return std::make_shared<const map::StatusFilter>(std::move(filter));
}

Result<std::vector<Error>> open_server_tables(const config::Settings& s, bool lmtp, Settings& into) {
  const config::ClientSettings& client = s.client(lmtp);
  std::vector<Error> problems;
  const auto open = [&](const std::string& value, const char* name,
                        std::shared_ptr<const map::MapList>& maps) -> Result<void> {
    if (trim(value).empty()) return {};
    auto opened = map::MapList::open(value, {.default_type = s.default_database_type, .setting = name});
    if (!opened) return fail(std::move(opened).error().within(name));
    if (opened->blocking()) return fail(intake::CheckError::may_wait, name);
    for (auto& problem : opened->problems()) problems.push_back(std::move(problem));
    maps = std::make_shared<const map::MapList>(*std::move(opened));
    return {};
  };
  PEN_TRY(open(client.reply_filter, lmtp ? "lmtp_reply_filter" : "smtp_reply_filter", into.reply_filter));
  PEN_TRY(open(lmtp ? s.lmtp_discard_lhlo_keyword_address_maps : s.smtp_discard_ehlo_keyword_address_maps,
               lmtp ? "lmtp_discard_lhlo_keyword_address_maps" : "smtp_discard_ehlo_keyword_address_maps",
               into.discard_by_address));
  const char* levels = lmtp ? "lmtp_tls_loglevel_maps" : "smtp_tls_loglevel_maps";
  PEN_TRY(open(join(client.tls_loglevel_maps), levels, into.tls_loglevels));
  const auto open_list = [&](const std::vector<std::string>& items, const char* name,
                             std::shared_ptr<const map::MatchList>& list) -> Result<void> {
    if (items.empty()) return {};
    auto opened = map::MatchList::open(map::MatchList::Kind::host, join(items),
                                       {.parent_domains = list_contains(join(s.parent_domain_matches_subdomains), name),
                                        .open = {.default_type = s.default_database_type, .setting = name}});
    if (!opened) return fail(std::move(opened).error().within(name));
    if (opened->blocking()) return fail(intake::CheckError::may_wait, name);
    list = std::make_shared<const map::MatchList>(*std::move(opened));
    return {};
  };
  PEN_TRY(open_list(s.debug_peer_list, "debug_peer_list", into.traced));
  PEN_TRY(open_list(client.connection_cache_destinations,
                    lmtp ? "lmtp_connection_cache_destinations" : "smtp_connection_cache_destinations", into.shared));
  into.tls_loglevel_parents = list_contains(join(s.parent_domain_matches_subdomains), levels);
  return problems;
}

std::vector<Error> ContentRules::problems() const {
  std::vector<Error> all = checks ? checks->problems() : std::vector<Error>();
  if (generic)
    for (auto& problem : generic->problems()) all.push_back(std::move(problem));
  return all;
}

Result<bool> map_envelope(const ContentRules& rules, ipc::delivery::Job& job) {
  if (!rules.generic) return false;
  PEN_TRY_ASSIGN(std::string sender, rules.generic->map(job.sender));
  std::vector<std::string> recipients;
  recipients.reserve(job.recipients.size());
  for (const auto& r : job.recipients) {
    PEN_TRY_ASSIGN(recipients.emplace_back(), rules.generic->map(r.recipient.address));
  }
  bool changed = sender != job.sender;
  job.sender = std::move(sender);
  for (std::size_t i = 0; i < recipients.size(); ++i) {
    mail::Recipient& r = job.recipients[i].recipient;
    if (recipients[i] == r.address) continue;
    changed = true;
    if (r.original.empty()) r.original = r.address;
    r.address = std::move(recipients[i]);
  }
  return changed;
}

RewrittenContent::RewrittenContent(const ContentRules& rules, std::string queue_id)
    : RewrittenChecks{rules.checks ? std::optional<Checks>(std::in_place, rules.checks, Checks::Side::delivering,
                                                           reporter(std::move(queue_id)))
                                   : std::nullopt},
      CheckedContent(RewrittenChecks::checks ? &*RewrittenChecks::checks : nullptr,
                     rules.checks ? rules.checks->walk : rules.walk),
      rules_(rules) {}

void RewrittenContent::feed(std::string_view chunk, std::string& to) {
  out_ = &to;
  while (!chunk.empty()) {
    if (plain_) {
      to += chunk;
      return;
    }
    const auto lf = chunk.find('\n');
    const auto piece = chunk.substr(0, lf == std::string_view::npos ? lf : lf + 1);
    scanner_.feed(piece, walker());
    chunk.remove_prefix(piece.size());
    plain_ = lf != std::string_view::npos && walker().plain();
  }
}

void RewrittenContent::finish(std::string& to) {
  if (plain_) return;
  out_ = &to;
  scanner_.finish(walker());
  walker().finish();
}

void RewrittenContent::checked() {
  if (failed_.empty()) failed_ = RewrittenChecks::checks->failed();
}

bool RewrittenContent::message_field(std::string_view, std::string& text, bool kept, bool whole) {
  if (!kept || !rules_.generic || !whole) return kept;
  const auto name = mail::field_name_length(text);
  const auto use = mail::field_use(std::string_view(text).substr(0, name));
  if (use != mail::FieldUse::sender_address && use != mail::FieldUse::recipient_address) return true;
  const auto start = text.find(':') + 1;
  std::string value = text.substr(start);
  const auto changed =
      mail::replace_addresses(value, [&](std::string_view address) { return rules_.generic->map(address); });
  if (!changed) {
    if (failed_.empty()) failed_ = changed.error().message();
  } else if (*changed) {
    text.replace(start, std::string::npos, value);
  }
  return true;
}

}  // namespace pen::smtp
