/// Restrictions that look up access tables, and the actions that the tables return.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/delimiters.h"
#include "smtpd/named_status.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

/// Looks up the key itself, without parent domains or networks.
map::AddressValue find_key(const map::MapList& maps, const std::string& key) {
  auto value = maps.lookup(key);
  if (!value) return std::unexpected(std::move(value).error());
  if (!*value) return std::nullopt;
  return map::AddressHit{.value = **value, .key = key, .extension = {}};
}

/// By the name and its parents, then by the client's address and its networks.
[[gnu::noinline]] async::Task<Answer> client_access(Evaluation& e, const Restriction& r, std::string host, Name name) {
  const auto found = co_await e.tools.tables.ask(
      [maps = r.maps, host, address = e.subject.client->peer.address, parents = e.policy.parent_domains] {
        auto hit = map::find_access_name(maps, host, parents);
        if (hit && !*hit) hit = map::find_access_network(maps, address);
        return hit;
      });
  co_return co_await act_on(e, found, r, std::move(name));
}

/// By the name and its parents.
[[gnu::noinline]] async::Task<Answer> name_access(Evaluation& e, const Restriction& r, std::string host, Name name) {
  const auto found = co_await e.tools.tables.ask(
      [maps = r.maps, host, parents = e.policy.parent_domains] { return map::find_access_name(maps, host, parents); });
  co_return co_await act_on(e, found, r, std::move(name));
}

[[gnu::noinline]] async::Task<Answer> address_access(Evaluation& e, const Restriction& r, std::string address,
                                                     Name name) {
  // As it will be after rewriting: "user" is user@$myorigin, whatever form the client gave it, and user%there@here is
  // user@there.
  const auto found = co_await e.tools.tables.ask(
      [maps = r.maps, address, resolve = e.policy.resolve,
       delimiters = mail::delimiters(e.policy.settings.recipient_delimiter, e.policy.settings.owner_request_special),
       parents = e.policy.parent_domains,
       null_key = e.policy.settings.smtpd_null_access_lookup_key]() -> map::AddressValue {
        if (address.empty()) return find_key(maps, null_key);
        PEN_TRY_ASSIGN(const std::string plain, resolve->without_route(address));
        return map::find_access_address(maps, plain, delimiters, parents);
      });
  co_return co_await act_on(e, found, r, std::move(name));
}

/// Carries out an action on the whole message (HOLD, BCC, …), or warns that it comes too early or too late.
Answer act_on_message(Evaluation& e, const AccessAction& action, const Name& name, std::string_view table) {
  using Kind = AccessAction::Kind;
  std::string_view verb, word;
  switch (action.kind) {
    case Kind::discard:
      verb = "discard";
      word = "DISCARD action";
      break;
    case Kind::hold:
      verb = "hold";
      word = "HOLD action";
      break;
    case Kind::filter:
      verb = "filter";
      word = "FILTER";
      break;
    case Kind::redirect:
      verb = "redirect";
      word = "REDIRECT";
      break;
    case Kind::bcc:
      verb = "bcc";
      word = "BCC";
      break;
    default:
      verb = "prepend";
      word = "PREPEND";
      break;
  }
  const bool no_message = !e.subject.sender;
  const bool too_late = action.kind == Kind::prepend && e.after_content;
  const bool not_ours = action.kind != Kind::prepend && e.policy.proxy;
  if (no_message || too_late || not_ours) {
    log::warning("{}: {} {} for <{}> has no effect: {}", e.subject.client->peer.shown(), word, action.text, name.value,
                 no_message ? "there is no message yet (smtpd_delay_reject = no)"
                 : too_late ? "the message's header is complete"
                            : "the message goes to smtpd_proxy_filter");
    return Answer::dunno;
  }
  // Postfix does not log this one, which comes with every message where a policy server marks them.
  const bool by_text = (action.kind == Kind::hold || action.kind == Kind::discard) && !action.text.empty();
  if (by_text)
    e.log_line(verb, fmt::format("<{}>: {} {}", name.value, name.kind, action.text));
  else if (action.kind != Kind::prepend)
    e.log_line(verb, fmt::format("<{}>: {} triggers {} {}", name.value, name.kind, word, action.text));
  switch (action.kind) {
    case Kind::discard:
      e.effects.discard = true;
      return e.permits("DISCARD", name, table);
    case Kind::hold:
      e.effects.hold = true;
      break;
    case Kind::filter:
      e.effects.filter = action.text;
      break;
    case Kind::redirect:
      e.effects.redirect = action.text;
      break;
    case Kind::bcc:
      e.effects.bcc.push_back(action.text);
      break;
    default:
      e.effects.prepend.push_back(action.text);
      break;
  }
  return Answer::dunno;
}

/// Carries out an action that is neither malformed nor a list of restrictions.
Answer act(Evaluation& e, const AccessAction& action, const Name& name, std::string_view table) {
  using Kind = AccessAction::Kind;
  const auto& s = e.policy.settings;
  const std::string_view text = action.text.empty() ? std::string_view("Access denied") : std::string_view(action.text);
  const auto dsn = [&](const char* otherwise) {
    return action.dsn.empty() ? std::string(otherwise) : named_status(name.kind, action.dsn);
  };
  switch (action.kind) {
    case Kind::permit:
      return e.permits(action.word, name, table);
    case Kind::reject:
      return e.refuse(s.access_map_reject_code, dsn("5.7.1"), name, text);
    case Kind::defer:
      return e.refuse(s.access_map_defer_code, dsn("4.7.1"), name, text);
    case Kind::code:
      return e.refuse(action.code, dsn(action.code >= 500 ? "5.7.1" : "4.7.1"), name, text);
    case Kind::defer_if_permit:
      return e.refuse_if_permitted(s.access_map_defer_code, dsn("4.7.1"), name,
                                   action.text.empty() ? "Service unavailable" : text);
    case Kind::defer_if_reject:
      return e.defer_if_refused(dsn("4.7.1"), name, action.text.empty() ? "Service unavailable" : text);
    case Kind::warn:
    case Kind::info:
      e.log_line(action.kind == Kind::warn ? "warn" : "info",
                 action.text.empty() ? fmt::format("<{}>: {} triggers {}", name.value, name.kind,
                                                   action.kind == Kind::warn ? "WARN" : "INFO")
                                     : action.text);
      return Answer::dunno;
    case Kind::discard:
    case Kind::hold:
    case Kind::filter:
    case Kind::redirect:
    case Kind::bcc:
    case Kind::prepend:
      return act_on_message(e, action, name, table);
    case Kind::dunno:
    case Kind::malformed:
    case Kind::restrictions:
      break;
  }
  return Answer::dunno;
}

}  // namespace

async::Task<map::AddressValue> look_up(Evaluation& e, map::MapList maps, std::string key) {
  return e.tools.tables.ask([maps = std::move(maps), key = std::move(key)] { return find_key(maps, key); });
}

async::Task<Answer> check_client_access(Evaluation& e, const Restriction& r, const Name&) {
  co_return co_await client_access(e, r, e.subject.client->peer.name, e.client_name());
}

async::Task<Answer> check_reverse_client_hostname_access(Evaluation& e, const Restriction& r, const Name&) {
  const std::string& host = e.subject.client->peer.reverse_name;
  co_return never_permit(e, co_await client_access(e, r, host, Name{host, "Unverified Client host"}), r, host);
}

async::Task<Answer> check_helo_access(Evaluation& e, const Restriction& r, const Name&) {
  if (e.subject.client->helo.empty()) co_return Answer::dunno;
  co_return co_await name_access(e, r, e.subject.client->helo, e.helo_label());
}

async::Task<Answer> check_sender_access(Evaluation& e, const Restriction& r, const Name&) {
  if (!e.subject.sender) co_return Answer::dunno;
  co_return co_await address_access(e, r, *e.subject.sender, e.sender_label());
}

async::Task<Answer> check_recipient_access(Evaluation& e, const Restriction& r, const Name&) {
  if (!e.subject.recipient) co_return Answer::dunno;
  co_return co_await address_access(e, r, *e.subject.recipient, e.recipient_label());
}

async::Task<Answer> check_etrn_access(Evaluation& e, const Restriction& r, const Name&) {
  if (e.subject.etrn_domain.empty()) co_return Answer::dunno;
  co_return co_await name_access(e, r, std::string(e.subject.etrn_domain), e.etrn_label());
}

async::Task<Answer> check_sasl_access(Evaluation& e, const Restriction& r, const Name&) {
  if (!e.subject.client->login) co_return Answer::dunno;
  const auto found = co_await look_up(e, r.maps, e.subject.client->login->username);
  co_return co_await act_on(e, found, r, Name{e.subject.client->login->username, "SASL login name"});
}

Answer never_permit(Evaluation& e, Answer answer, const Restriction& r, std::string_view target) {
  if (answer != Answer::permit || e.effects.discard) return answer;
  log::warning("restriction {} returns OK for {}", r.name, target);
  log::warning("this is not allowed for security reasons");
  return e.server_error("use DUNNO instead of OK if you want to make an exception");
}

async::Task<Answer> act_on(Evaluation& e, const map::AddressValue& found, const Restriction& r, Name name) {
  if (!found) {
    log::warning("{}: {}", r.name, found.error().message());
    co_return e.refuse(451, "4.3.5", name, "Server configuration error", mail::ErrorClass::data);
  }
  if (!*found) co_return Answer::dunno;

  const AccessAction action = parse_access((*found)->value);
  if (action.kind == AccessAction::Kind::malformed) {  // and not a reason to keep mail out
    log::warning("access table {} entry \"{}\" has no effect: {}", r.name, (*found)->key, action.text);
    co_return Answer::dunno;
  }
  if (action.kind != AccessAction::Kind::restrictions)
    co_return act(e, action, name, r.maps.maps().empty() ? r.name : r.maps.maps().front()->name());
  // Restrictions and classes by name take the place of the look-up.
  std::vector<std::string> items = split_list(action.text);
  std::vector<RestrictionReader::Class> classes;
  for (const auto& class_name : e.policy.class_names) classes.push_back({class_name, {}});
  RestrictionReader reader(e.policy.open, std::move(classes), e.policy.settings);
  const RestrictionList list = reader.read(Stage::recipient, items);
  co_return co_await e.run(list, name);
}

}  // namespace pen::smtpd::restrictions
