/// Restrictions that look up access tables, and the actions that the tables return.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/delimiters.h"
#include "smtpd/checks.h"

namespace pen::smtpd {
namespace {

/// Looks up the key itself, without parent domains or networks.
map::AddressValue find_key(const map::MapList& maps, const std::string& key) {
  auto value = maps.lookup(key);
  if (!value) return std::unexpected(std::move(value).error());
  if (!*value) return std::nullopt;
  return map::AddressHit{.value = **value, .key = key, .extension = {}};
}

}  // namespace

async::Task<map::AddressValue> Checks::look_up(map::MapList maps, std::string key) {
  return tools_.tables.ask([maps = std::move(maps), key = std::move(key)] { return find_key(maps, key); });
}

async::Task<Checks::Answer> Checks::check_client_access(const Restriction& r, const Name&) {
  co_return co_await client_access(r, subject_.client->peer.name, client_name());
}

async::Task<Checks::Answer> Checks::check_reverse_client_hostname_access(const Restriction& r, const Name&) {
  const std::string& host = subject_.client->peer.reverse_name;
  co_return never_permit(co_await client_access(r, host, Name{host, "Unverified Client host"}), r, host);
}

async::Task<Checks::Answer> Checks::client_access(const Restriction& r, std::string host, Name name) {
  const auto found = co_await tools_.tables.ask(
      [maps = r.maps, host, address = subject_.client->peer.address, parents = policy_.parent_domains] {
        auto hit = map::find_access_name(maps, host, parents);
        if (hit && !*hit) hit = map::find_access_network(maps, address);
        return hit;
      });
  co_return co_await act_on(found, r, std::move(name));
}

async::Task<Checks::Answer> Checks::check_helo_access(const Restriction& r, const Name&) {
  if (subject_.client->helo.empty()) co_return Answer::dunno;
  co_return co_await name_access(r, subject_.client->helo, helo_label());
}

async::Task<Checks::Answer> Checks::name_access(const Restriction& r, std::string host, Name name) {
  const auto found = co_await tools_.tables.ask(
      [maps = r.maps, host, parents = policy_.parent_domains] { return map::find_access_name(maps, host, parents); });
  co_return co_await act_on(found, r, std::move(name));
}

async::Task<Checks::Answer> Checks::check_sender_access(const Restriction& r, const Name&) {
  if (!subject_.sender) co_return Answer::dunno;
  co_return co_await address_access(r, *subject_.sender, sender_label());
}

async::Task<Checks::Answer> Checks::check_recipient_access(const Restriction& r, const Name&) {
  if (!subject_.recipient) co_return Answer::dunno;
  co_return co_await address_access(r, *subject_.recipient, recipient_label());
}

async::Task<Checks::Answer> Checks::check_etrn_access(const Restriction& r, const Name&) {
  if (subject_.etrn_domain.empty()) co_return Answer::dunno;
  co_return co_await name_access(r, std::string(subject_.etrn_domain), etrn_label());
}

async::Task<Checks::Answer> Checks::address_access(const Restriction& r, std::string address, Name name) {
  // As it will be after rewriting: "user" is user@$myorigin, whatever form the client gave it, and user%there@here is
  // user@there.
  const auto found = co_await tools_.tables.ask(
      [maps = r.maps, address, resolve = policy_.resolve,
       delimiters = mail::delimiters(policy_.settings.recipient_delimiter, policy_.settings.owner_request_special),
       parents = policy_.parent_domains,
       null_key = policy_.settings.smtpd_null_access_lookup_key]() -> map::AddressValue {
        if (address.empty()) return find_key(maps, null_key);
        PEN_TRY_ASSIGN(const std::string plain, resolve->without_route(address));
        return map::find_access_address(maps, plain, delimiters, parents);
      });
  co_return co_await act_on(found, r, std::move(name));
}

async::Task<Checks::Answer> Checks::check_ccert_access(const Restriction& r, const Name& name) {
  Name print = name;
  const auto found = co_await look_up_certificate(r.maps, r.prints, print);
  co_return co_await act_on(found, r, std::move(print));
}

async::Task<Checks::Answer> Checks::check_sasl_access(const Restriction& r, const Name&) {
  if (!subject_.client->login) co_return Answer::dunno;
  const auto found = co_await look_up(r.maps, subject_.client->login->username);
  co_return co_await act_on(found, r, Name{subject_.client->login->username, "SASL login name"});
}

async::Task<Checks::Answer> Checks::act_on(const map::AddressValue& found, const Restriction& r, Name name) {
  if (!found) {
    log::warning("{}: {}", r.name, found.error().message());
    co_return refuse(451, "4.3.5", name, "Server configuration error", mail::ErrorClass::data);
  }
  if (!*found) co_return Answer::dunno;

  const AccessAction action = parse_access((*found)->value);
  if (action.kind == AccessAction::Kind::malformed) {  // and not a reason to keep mail out
    log::warning("access table {} entry \"{}\" has no effect: {}", r.name, (*found)->key, action.text);
    co_return Answer::dunno;
  }
  if (action.kind != AccessAction::Kind::restrictions)
    co_return act(action, name, r.maps.maps().empty() ? r.name : r.maps.maps().front()->name());
  // Restrictions and classes by name take the place of the look-up.
  std::vector<std::string> items = split_list(action.text);
  std::vector<RestrictionReader::Class> classes;
  for (const auto& class_name : policy_.class_names) classes.push_back({class_name, {}});
  RestrictionReader reader(policy_.open, std::move(classes), policy_.settings);
  const RestrictionList list = reader.read(Stage::recipient, items);
  co_return co_await run(list, name);
}

Checks::Answer Checks::act(const AccessAction& action, const Name& name, std::string_view table) {
  using Kind = AccessAction::Kind;
  const auto& s = policy_.settings;
  const std::string_view text = action.text.empty() ? std::string_view("Access denied") : std::string_view(action.text);
  const auto dsn = [&](const char* otherwise) { return action.dsn.empty() ? std::string(otherwise) : action.dsn; };
  switch (action.kind) {
    case Kind::permit:
      return permits(action.word, name, table);
    case Kind::reject:
      return refuse(s.access_map_reject_code, dsn("5.7.1"), name, text);
    case Kind::defer:
      return refuse(s.access_map_defer_code, dsn("4.7.1"), name, text);
    case Kind::code:
      return refuse(action.code, dsn(action.code >= 500 ? "5.7.1" : "4.7.1"), name, text);
    case Kind::defer_if_permit:
      return refuse_if_permitted(s.access_map_defer_code, dsn("4.7.1"), name,
                                 action.text.empty() ? "Service unavailable" : text);
    case Kind::defer_if_reject:
      return defer_if_refused(dsn("4.7.1"), name, action.text.empty() ? "Service unavailable" : text);
    case Kind::warn:
    case Kind::info:
      log_line(action.kind == Kind::warn ? "warn" : "info",
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
      return act_on_message(action, name, table);
    case Kind::dunno:
    case Kind::malformed:
    case Kind::restrictions:
      break;
  }
  return Answer::dunno;
}

Checks::Answer Checks::act_on_message(const AccessAction& action, const Name& name, std::string_view table) {
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
  const bool no_message = !subject_.sender;
  const bool too_late = action.kind == Kind::prepend && after_content_;
  const bool not_ours = action.kind != Kind::prepend && policy_.proxy;
  if (no_message || too_late || not_ours) {
    log::warning("{}: {} {} for <{}> has no effect: {}", subject_.client->peer.shown(), word, action.text, name.value,
                 no_message ? "there is no message yet (smtpd_delay_reject = no)"
                 : too_late ? "the message's header is complete"
                            : "the message goes to smtpd_proxy_filter");
    return Answer::dunno;
  }
  // Postfix does not log this one, which comes with every message where a policy server marks them.
  const bool by_text = (action.kind == Kind::hold || action.kind == Kind::discard) && !action.text.empty();
  if (by_text)
    log_line(verb, fmt::format("<{}>: {} {}", name.value, name.kind, action.text));
  else if (action.kind != Kind::prepend)
    log_line(verb, fmt::format("<{}>: {} triggers {} {}", name.value, name.kind, word, action.text));
  switch (action.kind) {
    case Kind::discard:
      effects_.discard = true;
      return permits("DISCARD", name, table);
    case Kind::hold:
      effects_.hold = true;
      break;
    case Kind::filter:
      effects_.filter = action.text;
      break;
    case Kind::redirect:
      effects_.redirect = action.text;
      break;
    case Kind::bcc:
      effects_.bcc.push_back(action.text);
      break;
    default:
      effects_.prepend.push_back(action.text);
      break;
  }
  return Answer::dunno;
}

}  // namespace pen::smtpd
