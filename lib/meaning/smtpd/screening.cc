#include "lib/meaning/smtpd/screening.h"

#include <algorithm>
#include <cerrno>

#include "lib/base/text.h"
#include "lib/meaning/smtpd/reply_text.h"

namespace pen::smtpd {
namespace {

using triage::Action;
using triage::Test;

Action action_of(config::ScreenAction action) {
  switch (action) {
    case config::ScreenAction::ignore:
      return Action::ignore;
    case config::ScreenAction::enforce:
      return Action::enforce;
    case config::ScreenAction::drop:
      return Action::drop;
  }
  return Action::ignore;
}

seconds whole(milliseconds time) { return std::chrono::ceil<seconds>(time); }

Result<map::MapList> open_map(const Policy& policy, std::string_view spec, const char* name) {
  auto maps = map::MapList::open(spec, policy.open.of(name));
  if (!maps) return fail(std::move(maps).error().within(name));
  return maps;
}

Result<map::MatchList> open_match(const Policy& policy, map::MatchList::Kind kind,
                                  const std::vector<std::string>& items, const char* name) {
  auto list = map::MatchList::open(kind, join(items), {.parent_domains = false, .open = policy.open.of(name)});
  if (!list) return fail(std::move(list).error().within(name));
  return list;
}

}  // namespace

Result<std::string> screen_cache_directory(std::string_view cache_map) {
  std::string_view path = trim(cache_map);
  if (path.empty()) return std::string();
  for (auto colon = path.find(':'); colon != std::string_view::npos && !path.starts_with('/'); colon = path.find(':'))
    path.remove_prefix(colon + 1);
  if (!path.starts_with('/')) return fail_errno("postscreen_cache_map: not a table type and an absolute path", EINVAL);
  return std::string(path);
}

void Screening::read_rules(const config::Settings& s) {
  rules.of(Test::pregreet) = {true, action_of(s.postscreen_greet_action), whole(s.postscreen_greet_ttl)};
  rules.of(Test::dnsbl) = {!sites.empty(), action_of(s.postscreen_dnsbl_action), whole(s.postscreen_dnsbl_max_ttl)};
  rules.of(Test::pipelining) = {s.postscreen_pipelining_enable, action_of(s.postscreen_pipelining_action),
                                whole(s.postscreen_pipelining_ttl)};
  rules.of(Test::non_smtp) = {s.postscreen_non_smtp_command_enable, action_of(s.postscreen_non_smtp_command_action),
                              whole(s.postscreen_non_smtp_command_ttl)};
  rules.of(Test::bare_newline) = {s.postscreen_bare_newline_enable, action_of(s.postscreen_bare_newline_action),
                                  whole(s.postscreen_bare_newline_ttl)};
  rules.lists_min_ttl = whole(s.postscreen_dnsbl_min_ttl);
  rules.threshold = static_cast<int>(s.postscreen_dnsbl_threshold);
  rules.allow_threshold = static_cast<int>(s.postscreen_dnsbl_allowlist_threshold);
  denylist_action = action_of(s.postscreen_denylist_action);
}

void Screening::read_sites(const std::vector<std::string>& items) {
  for (const auto& item : items) {
    auto site = dnsbl::parse_site(item);
    if (!site) {
      warnings.push_back("postscreen_dnsbl_sites: " + site.error().message() + "; it is not asked");
      continue;
    }
    const auto known = std::ranges::find(domains, site->list.domain);
    const auto place = static_cast<std::size_t>(known - domains.begin());
    if (known == domains.end()) domains.push_back(site->list.domain);
    sites.push_back({*std::move(site), place});
  }
}

Result<void> Screening::read_access(const std::vector<std::string>& items, const map::OpenOptions& options) {
  for (const auto& text : items) {
    Item item;
    if (iequals(text, "permit_mynetworks"))
      item.kind = Item::Kind::mynetworks;
    else if (iequals(text, "permit"))
      item.kind = Item::Kind::permit;
    else if (iequals(text, "reject"))
      item.kind = Item::Kind::reject;
    else if (iequals(text, "dunno"))
      item.kind = Item::Kind::dunno;
    else if (text.contains(':') || text.starts_with('{')) {
      item.kind = Item::Kind::table;
      auto table = map::MapList::open(text, options.of("postscreen_access_list"));
      if (!table) return fail(std::move(table).error().within("postscreen_access_list"));
      item.table = *std::move(table);
    } else {
      warnings.push_back("postscreen_access_list: " + printable(text, 60) + " has no effect");
      continue;
    }
    access_.push_back(std::move(item));
  }
  return {};
}

Screening::Access Screening::access(const std::string& address, const map::MatchList& mynetworks) const {
  Access found;
  const auto warn = [&](std::string text) { found.warnings.push_back("postscreen_access_list: " + std::move(text)); };
  for (const Item& item : access_) {
    switch (item.kind) {
      case Item::Kind::permit:
        found.outcome = ScreenAccess::permit;
        return found;
      case Item::Kind::reject:
        found.outcome = ScreenAccess::reject;
        return found;
      case Item::Kind::dunno:
        return found;
      case Item::Kind::mynetworks: {
        const Result<bool> ours = mynetworks.matches_address(address);
        if (!ours) warn("mynetworks: " + ours.error().message());
        if (ours.value_or(false)) {
          found.outcome = ScreenAccess::permit;
          return found;
        }
        break;
      }
      case Item::Kind::table: {
        const map::Value value = item.table.lookup(address);
        if (!value) {
          warn(value.error().message());
          break;
        }
        if (!*value) break;
        const std::string_view word = trim(**value);
        if (iequals(word, "permit"))
          found.outcome = ScreenAccess::permit;
        else if (iequals(word, "reject"))
          found.outcome = ScreenAccess::reject;
        else if (iequals(word, "permit_mynetworks")) {
          const Result<bool> ours = mynetworks.matches_address(address);
          if (!ours.value_or(false)) break;
          found.outcome = ScreenAccess::permit;
        } else if (!iequals(word, "dunno")) {
          warn("\"" + printable(word, 60) + "\" for " + address + " is not permit, reject or dunno");
          break;
        }
        return found;
      }
    }
  }
  return found;
}

Result<std::shared_ptr<const Screening>> Screening::open(const config::Config& config, const Policy& policy) {
  const config::Settings& s = config.settings();
  auto screening = std::make_shared<Screening>();
  Screening& out = *screening;
  using Kind = map::MatchList::Kind;
  out.read_sites(s.postscreen_dnsbl_sites);
  out.read_rules(s);
  PEN_TRY(out.read_access(s.postscreen_access_list, policy.open));
  PEN_TRY_ASSIGN(out.allowlist_interfaces, open_match(policy, Kind::network, s.postscreen_allowlist_interfaces,
                                                      "postscreen_allowlist_interfaces"));
  PEN_TRY_ASSIGN(out.forbidden_commands,
                 open_match(policy, Kind::string, s.postscreen_forbidden_commands, "postscreen_forbidden_commands"));
  PEN_TRY_ASSIGN(out.dnsbl_reply, open_map(policy, s.postscreen_dnsbl_reply_map, "postscreen_dnsbl_reply_map"));
  PEN_TRY_ASSIGN(out.command_filter, open_map(policy, s.postscreen_command_filter, "postscreen_command_filter"));
  PEN_TRY_ASSIGN(out.reject_footer_maps,
                 open_map(policy, s.postscreen_reject_footer_maps, "postscreen_reject_footer_maps"));
  PEN_TRY_ASSIGN(out.discarded_by_client, open_map(policy, s.postscreen_discard_ehlo_keyword_address_maps,
                                                   "postscreen_discard_ehlo_keyword_address_maps"));
  if (!s.respectful_logging)  // as before Postfix 3.6
    out.words = {.permitted = "WHITELISTED", .denied = "BLACKLISTED", .vetoed = "WHITELIST VETO"};
  out.discarded = policy.discard(s.postscreen_discard_ehlo_keywords);
  // These two are read as they are written: their defaults stand for others by their names.
  out.expansion_filter =
      unescape(s.postscreen_expansion_filter == "$smtpd_expansion_filter" ? s.smtpd_expansion_filter
                                                                          : s.postscreen_expansion_filter);
  const bool own_footer = s.postscreen_reject_footer != "$smtpd_reject_footer";
  if (const auto why = template_problem(s.postscreen_reject_footer, ReplyNames::of_sessions);
      own_footer && !why.empty())
    out.warnings.push_back("postscreen_reject_footer: " + why);
  out.upstream_proxy = s.postscreen_upstream_proxy_protocol == config::UpstreamProxy::haproxy;
  PEN_TRY_ASSIGN(out.cache_directory, screen_cache_directory(s.postscreen_cache_map));
  if (policy.tls.wrapper)
    out.warnings.push_back("smtpd_tls_wrappermode = yes: clients speak first there, so that none is tested");
  return screening;
}

}  // namespace pen::smtpd
