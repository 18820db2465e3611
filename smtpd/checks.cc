#include "smtpd/checks.h"

#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/reply.h"

namespace pen::smtpd {
namespace {

constexpr int kMaxDepth = 100;  // restriction classes within classes; Postfix's recursion limit

std::string domain_of(std::string_view address) { return std::string(mail::domain_part(address)); }

}  // namespace

Checks::Name Checks::client_name() const { return {subject_.peer->shown(), "Client host"}; }
Checks::Name Checks::helo_label() const { return {*subject_.helo, "Helo command"}; }
Checks::Name Checks::sender_label() const {
  return {subject_.sender.value_or(""), "Sender address"};
}
Checks::Name Checks::recipient_label() const {
  return {subject_.recipient.value_or(""), "Recipient address"};
}

void Checks::log_line(std::string_view verb, std::string_view reply) const {
  std::string line = fmt::format("{}: {}: {} from {}: {};",
                                 subject_.queue_id.empty() ? "NOQUEUE" : subject_.queue_id, verb,
                                 subject_.where, subject_.peer->shown(), reply);
  if (subject_.sender) line += fmt::format(" from=<{}>", *subject_.sender);
  if (subject_.recipient) line += fmt::format(" to=<{}>", *subject_.recipient);
  line += fmt::format(" proto={}", subject_.esmtp ? "ESMTP" : "SMTP");
  if (!subject_.helo->empty()) line += fmt::format(" helo=<{}>", *subject_.helo);
  if (subject_.login) line += fmt::format(" sasl_username=<{}>", subject_.login->username);
  log::info("{}", line);
}

Checks::Answer Checks::reject(int code, std::string_view dsn, const Name& name,
                              std::string_view text, mail::ErrorClass error) {
  // What may be better later must not be refused for good.
  const bool soften = (if_reject_ || policy_.settings.soft_bounce) && code >= 500;
  if (soften) code = 450;
  std::string status(dsn);
  if (!status.empty()) status[0] = code >= 500 ? '5' : '4';
  std::string reply = fmt::format("{} {} ", code, status);
  if (!name.value.empty() || !name.kind.empty()) reply += fmt::format("<{}>: ", name.value);
  if (!name.kind.empty()) reply += fmt::format("{} rejected: ", name.kind);
  reply += text;
  // That a table cannot be read says nothing about the client.
  if (warn_ && error != mail::ErrorClass::data) {
    log_line("reject_warning", reply);
    return Answer::dunno;
  }
  log_line("reject", reply);
  reply_ = std::move(reply);
  error_ = error;
  return Answer::reject;
}

Checks::Answer Checks::table_problem(std::string_view subject) {
  return reject(451, "4.3.0", Name{std::string(subject), ""}, "Temporary lookup failure",
                mail::ErrorClass::data);
}

Checks::Answer Checks::server_error(std::string_view what) {
  log::warning("{}: {}", subject_.peer->shown(), what);
  reply_ = "451 4.3.5 Server configuration error";
  error_ = mail::ErrorClass::software;
  log_line("reject", reply_);
  return Answer::reject;
}

Checks::Answer Checks::defer_if_permit(int code, std::string_view dsn, const Name& name,
                                       std::string_view text) {
  if (warn_) return Answer::dunno;
  if (if_permit_.empty()) {
    std::string status(dsn);
    status[0] = '4';
    if_permit_ = name.kind.empty() ? fmt::format("{} {} {}", code, status, text)
                                   : fmt::format("{} {} <{}>: {} rejected: {}", code, status,
                                                 name.value, name.kind, text);
  }
  return Answer::dunno;
}

Checks::Answer Checks::helo_name(Check check) {
  const std::string& helo = *subject_.helo;
  if (helo.empty()) return Answer::dunno;
  const auto& s = policy_.settings;
  const bool literal = helo.front() == '[';
  const bool utf8 = s.smtputf8_enable;
  if (check == Check::reject_invalid_helo_hostname) {
    const bool valid = literal ? mail::literal_address(helo).has_value()
                               : mail::valid_hostname(helo, utf8) || mail::valid_address(helo);
    if (!valid)
      return reject(s.invalid_hostname_reject_code, "5.5.2", helo_label(), "Invalid name");
  } else {
    const bool full =
        literal ? mail::literal_address(helo).has_value() : mail::fully_qualified(helo, utf8);
    if (!full)
      return reject(s.non_fqdn_reject_code, "5.5.2", helo_label(), "need fully-qualified hostname");
  }
  return Answer::dunno;
}

Checks::Answer Checks::non_fqdn(std::string_view address, const Name& name) {
  if (address.empty()) return Answer::dunno;
  const auto domain = mail::domain_part(address);
  const bool literal = domain.starts_with('[') && mail::literal_address(domain);
  if (literal || mail::fully_qualified(domain, policy_.settings.smtputf8_enable))
    return Answer::dunno;
  return reject(policy_.settings.non_fqdn_reject_code, "5.5.2", name,
                "need fully-qualified address");
}

async::Task<Result<resolve::AddressClass>> Checks::class_of(std::string_view domain) {
  if (domain.empty()) co_return resolve::AddressClass::local;
  co_return co_await tools_.tables.ask([&] { return policy_.resolve->class_of(domain); });
}

async::Task<Result<bool>> Checks::authorized_destination() {
  const std::string address = policy_.resolve->rewrite(*subject_.recipient);
  PEN_CO_TRY_ASSIGN(const auto cls, co_await class_of(mail::domain_part(address)));
  const std::string local = mail::unquote_local(mail::local_part(address));
  const bool routed = local.find_first_of("@%!") != std::string::npos;
  co_return cls != resolve::AddressClass::other && !routed;
}

async::Task<Checks::Answer> Checks::destination(Check check) {
  if (!subject_.recipient) co_return Answer::dunno;
  const auto authorized = co_await authorized_destination();
  // Where the class cannot be told, reject_unauth_destination will answer.
  if (check == Check::permit_auth_destination)
    co_return authorized.value_or(false) ? Answer::permit : Answer::dunno;
  if (!authorized) {
    log::warning("{}: address class: {}", *subject_.recipient, authorized.error().message());
    co_return table_problem(*subject_.recipient);
  }
  if (*authorized) co_return Answer::dunno;
  const Name name{*subject_.recipient, ""};
  if (check == Check::defer_unauth_destination)
    co_return reject(454, "4.7.1", name, "Relay access denied");
  co_return reject(policy_.settings.relay_domains_reject_code, "5.7.1", name,
                   "Relay access denied");
}

async::Task<Checks::Answer> Checks::unlisted(std::string given, Name name, bool sender) {
  if (given.empty()) co_return Answer::dunno;
  using resolve::AddressClass;
  const auto& s = policy_.settings;
  const std::string address = policy_.resolve->rewrite(given);
  const auto cls = co_await class_of(mail::domain_part(address));
  const auto temporary = [&](const Error& error) {
    log::warning("{}: recipient tables: {}", address, error.message());
    return table_problem(given);
  };
  if (!cls) co_return temporary(cls.error());
  const auto listed = co_await tools_.tables.ask(
      [resolve = policy_.resolve, address] { return resolve->listed(address); });
  if (!listed) co_return temporary(listed.error());
  if (*listed == resolve::Listed::moved) {
    const auto moved = co_await tools_.tables.ask(
        [resolve = policy_.resolve, address] { return resolve->moved(address); });
    if (!moved) co_return temporary(moved.error());
    if (!*moved) co_return Answer::dunno;  // the table has changed meanwhile
    const std::string_view says = **moved;
    const auto dsn = mail::enhanced_code(says).value_or("5.1.6");
    const bool of_mailbox = dsn.substr(1) == ".1.6";  // which is a status of recipients only
    co_return reject(dsn.front() == '4' ? 450 : 550, sender && of_mailbox ? "5.1.0" : dsn, name,
                     trim(says.substr(dsn.size())), mail::ErrorClass::bounce);
  }
  if (*listed == resolve::Listed::elsewhere) co_return Answer::dunno;
  if (*cls != AddressClass::virtual_alias) {  // of that one the table alone decides
    const auto refused = co_await refused_by_route(address, name, sender);
    if (!refused) co_return temporary(refused.error());
    if (*refused != Answer::dunno) co_return *refused;
  }
  if (*listed != resolve::Listed::no) co_return Answer::dunno;
  int code = s.unknown_local_recipient_reject_code;
  switch (*cls) {
    case AddressClass::relay:
      code = s.unknown_relay_recipient_reject_code;
      break;
    case AddressClass::virtual_alias:
      code = s.unknown_virtual_alias_reject_code;
      break;
    case AddressClass::virtual_mailbox:
      code = s.unknown_virtual_mailbox_reject_code;
      break;
    case AddressClass::local:
      // RFC 5321 section 4.5.1: postmaster of every local domain takes mail
      if (iequals(mail::local_part(address), "postmaster")) co_return Answer::dunno;
      break;
    case AddressClass::other:
      break;
  }
  std::string text = "User unknown";
  if (s.show_user_unknown_table_name) {
    const auto shown = policy_.resolve->unlisted_text(*cls);
    if (istarts_with(shown, "user unknown"))
      text = std::string(shown);
    else if (!shown.empty())
      text = "User " + std::string(shown);
  }
  co_return reject(code, sender ? "5.1.0" : "5.1.1", name, text, mail::ErrorClass::bounce);
}

async::Task<Result<Checks::Answer>> Checks::refused_by_route(std::string address, Name name,
                                                             bool sender) {
  const std::string from = subject_.sender.value_or("");
  PEN_CO_TRY_ASSIGN(const auto route, co_await tools_.tables.ask(
                                          [&] { return policy_.resolve->route(from, address); }));
  if (route.transport != "error") co_return Answer::dunno;
  std::string_view text = route.nexthop;
  std::string dsn = take_dsn(text);
  if (dsn.empty() || !dsn.starts_with('5')) dsn = "5.0.0";
  if (sender && dsn.starts_with("5.1.")) dsn = "5.1.0";  // the others are of recipients
  if (text.empty()) text = "Address is undeliverable";
  co_return reject(550, dsn, name, text, mail::ErrorClass::bounce);
}

async::Task<Checks::Answer> Checks::domain_known(const std::string& given, Name name,
                                                 std::string_view missing_dsn,
                                                 std::string_view null_mx_dsn, int null_mx_code) {
  const std::string address = policy_.resolve->rewrite(given);
  std::string domain = domain_of(address);
  if (given.empty() || domain.empty() || domain.front() == '[') co_return Answer::dunno;
  const auto cls = co_await class_of(domain);
  if (cls && *cls != resolve::AddressClass::other) co_return Answer::dunno;  // ours: DNS has no say
  const NameState state = co_await tools_.names.mail_domain(std::move(domain), {});
  const auto& s = policy_.settings;
  switch (state) {
    case NameState::ok:
      co_return Answer::dunno;
    case NameState::missing:
      co_return reject(s.unknown_address_reject_code, missing_dsn, name, "Domain not found");
    case NameState::null_mx:
      co_return reject(null_mx_code, null_mx_dsn, name,
                       fmt::format("Domain {} does not accept mail (nullMX)", domain_of(address)));
    case NameState::temporary:
      break;
  }
  if (s.unknown_address_tempfail_action == config::TempfailAction::defer)
    co_return reject(450, missing_dsn, name, "Domain not found");
  co_return defer_if_permit(450, missing_dsn, name, "Domain not found");
}

async::Task<Checks::Answer> Checks::helo_known() {
  const std::string helo = *subject_.helo;
  if (helo.empty()) co_return Answer::dunno;
  if (helo.front() == '[') co_return helo_name(Check::reject_invalid_helo_hostname);
  const NameState state = co_await tools_.names.host(helo, {});
  const auto& s = policy_.settings;
  if (state == NameState::missing)
    co_return reject(s.unknown_hostname_reject_code, "4.7.1", helo_label(), "Host not found");
  if (state == NameState::temporary) {
    if (s.unknown_helo_hostname_tempfail_action == config::TempfailAction::defer)
      co_return reject(450, "4.7.1", helo_label(), "Host not found");
    co_return defer_if_permit(450, "4.7.1", helo_label(), "Host not found");
  }
  co_return Answer::dunno;
}

async::Task<map::AddressValue> Checks::look_up(const Restriction& r, Name& name) {
  const bool parents = policy_.parent_domains;
  const auto maps = r.maps;
  switch (r.check) {
    case Check::check_client_access:
    case Check::check_reverse_client_hostname_access: {
      const Peer& peer = *subject_.peer;
      const bool reverse = r.check == Check::check_reverse_client_hostname_access;
      name = client_name();
      const std::string host = reverse ? peer.reverse_name : peer.name;
      co_return co_await tools_.tables.ask([maps, host, address = peer.address, parents, reverse] {
        auto hit = map::find_access_name(maps, host, parents);
        if (!reverse && hit && !*hit) hit = map::find_access_network(maps, address);
        return hit;
      });
    }
    case Check::check_helo_access:
      if (subject_.helo->empty()) co_return std::nullopt;
      name = helo_label();
      co_return co_await tools_.tables.ask([maps, helo = *subject_.helo, parents] {
        return map::find_access_name(maps, helo, parents);
      });
    case Check::check_sender_access:
    case Check::check_recipient_access: {
      const bool sender = r.check == Check::check_sender_access;
      const auto& subject = sender ? subject_.sender : subject_.recipient;
      if (!subject) co_return std::nullopt;
      name = sender ? sender_label() : recipient_label();
      co_return co_await tools_.tables.ask(
          [maps, address = *subject, delimiters = policy_.settings.recipient_delimiter, parents,
           null_key = policy_.settings.smtpd_null_access_lookup_key]() -> map::AddressValue {
            if (!address.empty())
              return map::find_access_address(maps, address, delimiters, parents);
            auto value = maps.lookup(null_key);
            if (!value) return std::unexpected(std::move(value).error());
            if (!*value) return std::nullopt;
            return map::AddressHit{.value = **value, .key = null_key, .extension = {}};
          });
    }
    case Check::check_ccert_access:
      co_return co_await look_up_certificate(maps, name);
    case Check::check_sasl_access:
      if (!subject_.login) co_return std::nullopt;
      name = Name{subject_.login->username, "SASL login name"};
      co_return co_await tools_.tables.ask(
          [maps, user = subject_.login->username]() -> map::AddressValue {
            auto value = maps.lookup(user);
            if (!value) return std::unexpected(std::move(value).error());
            if (!*value) return std::nullopt;
            return map::AddressHit{.value = **value, .key = user, .extension = {}};
          });
    default:
      co_return std::nullopt;
  }
}

Checks::Answer Checks::act(const AccessAction& action, const Name& name) {
  using Kind = AccessAction::Kind;
  const auto& s = policy_.settings;
  const std::string_view text =
      action.text.empty() ? std::string_view("Access denied") : std::string_view(action.text);
  const auto dsn = [&](const char* otherwise) {
    return action.dsn.empty() ? std::string(otherwise) : action.dsn;
  };
  switch (action.kind) {
    case Kind::permit:
      return Answer::permit;
    case Kind::reject:
      return reject(s.access_map_reject_code, dsn("5.7.1"), name, text);
    case Kind::defer:
      return reject(s.access_map_defer_code, dsn("4.7.1"), name, text);
    case Kind::code:
      return reject(action.code, dsn(action.code >= 500 ? "5.7.1" : "4.7.1"), name, text);
    case Kind::defer_if_permit:
      return defer_if_permit(450, dsn("4.7.1"), name,
                             action.text.empty() ? "Service unavailable" : text);
    case Kind::defer_if_reject:
      if_reject_ = true;
      return Answer::dunno;
    case Kind::warn:
    case Kind::info:
      log_line(action.kind == Kind::warn ? "warn" : "info",
               fmt::format("<{}>: {} triggers {} {}", name.value, name.kind,
                           action.kind == Kind::warn ? "WARN" : "INFO", action.text));
      return Answer::dunno;
    case Kind::discard:
    case Kind::hold:
    case Kind::filter:
    case Kind::redirect:
    case Kind::bcc:
    case Kind::prepend:
      return act_on_message(action, name);
    case Kind::dunno:
    case Kind::malformed:
    case Kind::restrictions:
      break;
  }
  return Answer::dunno;
}

Checks::Answer Checks::act_on_message(const AccessAction& action, const Name& name) {
  using Kind = AccessAction::Kind;
  std::string_view verb, word;
  switch (action.kind) {
    case Kind::discard:
      verb = "discard", word = "DISCARD action";
      break;
    case Kind::hold:
      verb = "hold", word = "HOLD action";
      break;
    case Kind::filter:
      verb = "filter", word = "FILTER";
      break;
    case Kind::redirect:
      verb = "redirect", word = "REDIRECT";
      break;
    case Kind::bcc:
      verb = "bcc", word = "BCC";
      break;
    default:
      verb = "prepend", word = "PREPEND";
      break;
  }
  const bool no_message = !subject_.sender;
  const bool too_late = action.kind == Kind::prepend && after_content_;
  const bool not_ours = action.kind != Kind::prepend && policy_.proxy;
  if (no_message || too_late || not_ours) {
    log::warning("{}: {} {} for <{}> has no effect: {}", subject_.peer->shown(), word, action.text,
                 name.value,
                 no_message ? "there is no message yet (smtpd_delay_reject = no)"
                 : too_late ? "the message's header is complete"
                            : "the message goes to smtpd_proxy_filter");
    return Answer::dunno;
  }
  log_line(verb, fmt::format("<{}>: {} triggers {} {}", name.value, name.kind, word, action.text));
  switch (action.kind) {
    case Kind::discard:
      effects_.discard = true;
      return Answer::permit;
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

async::Task<Checks::Answer> Checks::access(const Restriction& r, Name name) {
  const map::AddressValue found = co_await look_up(r, name);
  if (!found) {
    log::warning("{}: {}", r.name, found.error().message());
    co_return reject(451, "4.3.5", Name{name.value, ""}, "Server configuration error",
                     mail::ErrorClass::data);
  }
  if (!*found) co_return Answer::dunno;

  const AccessAction action = parse_access((*found)->value);
  if (action.kind == AccessAction::Kind::malformed)
    co_return server_error(
        fmt::format("access table {} entry \"{}\": {}", r.name, (*found)->key, action.text));
  if (action.kind != AccessAction::Kind::restrictions) co_return act(action, name);
  // Restrictions and classes by name, as if they stood in place of the look-up.
  std::vector<std::string> items = split_list(action.text);
  std::vector<RestrictionReader::Class> classes;
  for (const auto& class_name : policy_.class_names) classes.push_back({class_name, {}});
  RestrictionReader reader(policy_.open, std::move(classes));
  const RestrictionList list = reader.read(Stage::recipient, items);
  co_return co_await run(list, name);
}

Checks::Answer Checks::about_client(Check check) {
  const Peer& peer = *subject_.peer;
  if (check == Check::permit_mynetworks) {
    if (!peer.trusted) return table_problem(peer.shown());
    return *peer.trusted ? Answer::permit : Answer::dunno;
  }
  if (check == Check::permit_inet_interfaces)
    return peer.own_address ? Answer::permit : Answer::dunno;
  const bool reverse = check == Check::reject_unknown_reverse_client_hostname;
  const NameState state = reverse ? peer.reverse_state : peer.name_state;
  if (state == NameState::ok) return Answer::dunno;
  return reject(state == NameState::temporary ? 450 : policy_.settings.unknown_client_reject_code,
                "4.7.25", Name{},
                fmt::format("Client host rejected: cannot find your {}, [{}]",
                            reverse ? "reverse hostname" : "hostname", peer.address));
}

Checks::Answer Checks::at_once(const Restriction& r, const Name& name) {
  const auto& s = policy_.settings;
  switch (r.check) {
    case Check::permit:
      return Answer::permit;
    case Check::reject:
      return reject(s.reject_code, "5.7.1", name, "Access denied");
    case Check::defer:
      return reject(s.defer_code, "4.3.2", name, "Try again later");
    case Check::defer_if_permit:
      return defer_if_permit(450, "4.7.0", Name{}, "Defer_if_permit requested");
    case Check::defer_if_reject:
      if_reject_ = true;
      return Answer::dunno;
    case Check::reject_invalid_helo_hostname:
    case Check::reject_non_fqdn_helo_hostname:
      return helo_name(r.check);
    case Check::reject_non_fqdn_sender:
      return subject_.sender ? non_fqdn(*subject_.sender, sender_label()) : Answer::dunno;
    case Check::reject_non_fqdn_recipient:
      return subject_.recipient ? non_fqdn(*subject_.recipient, recipient_label()) : Answer::dunno;
    case Check::reject_unauth_pipelining:
      if (!subject_.improper_pipelining) return Answer::dunno;
      return reject(503, "5.5.0", name, "Improper use of SMTP command pipelining",
                    mail::ErrorClass::protocol);
    case Check::reject_multi_recipient_bounce:
      if (subject_.sender != "" || subject_.recipient_count <= 1) return Answer::dunno;
      return reject(s.multi_recipient_bounce_reject_code, "5.5.3", name, "Multi-recipient bounce");
    case Check::reject_plaintext_session:
      if (subject_.tls) return Answer::dunno;
      return reject(s.plaintext_reject_code, "4.7.1", Name{}, "Session encryption is required");
    case Check::permit_sasl_authenticated:
      return permit_login();
    case Check::permit_tls_all_clientcerts:
      return subject_.tls && subject_.tls->trusted ? Answer::permit : Answer::dunno;
    case Check::unsupported:
      return server_error(fmt::format("restriction {} is not supported", r.name));
    case Check::unknown:
      return server_error(fmt::format("unknown smtpd restriction: \"{}\"", r.name));
    case Check::permit_mynetworks:
    case Check::permit_inet_interfaces:
    case Check::reject_unknown_client_hostname:
    case Check::reject_unknown_reverse_client_hostname:
      return about_client(r.check);
    case Check::permit_auth_destination:
    case Check::reject_unauth_destination:
    case Check::defer_unauth_destination:
    case Check::reject_unknown_helo_hostname:
    case Check::reject_unknown_sender_domain:
    case Check::reject_unknown_recipient_domain:
    case Check::reject_unlisted_sender:
    case Check::reject_unlisted_recipient:
    case Check::check_client_access:
    case Check::check_reverse_client_hostname_access:
    case Check::check_helo_access:
    case Check::check_sender_access:
    case Check::check_recipient_access:
    case Check::check_ccert_access:
    case Check::permit_tls_clientcerts:
    case Check::check_sasl_access:
    case Check::reject_sender_login_mismatch:
    case Check::reject_authenticated_sender_login_mismatch:
    case Check::reject_known_sender_login_mismatch:
    case Check::reject_unauthenticated_sender_login_mismatch:
    case Check::restriction_class:
    case Check::warn_if_reject:
      break;  // run()'s
  }
  return Answer::dunno;
}

async::Task<Checks::Answer> Checks::run(const RestrictionList& list, Name name) {
  if (++depth_ > kMaxDepth) {
    --depth_;
    co_return server_error("restriction classes call each other without end");
  }
  Answer answer = Answer::dunno;
  const bool outer_warn = warn_;
  for (const Restriction& r : list) {
    if (r.check == Check::warn_if_reject) {
      warn_ = true;
      continue;
    }
    switch (r.check) {  // what may have to wait; the rest is answered at_once()
      case Check::permit_auth_destination:
      case Check::reject_unauth_destination:
      case Check::defer_unauth_destination:
        answer = co_await destination(r.check);
        break;
      case Check::reject_unknown_helo_hostname:
        answer = co_await helo_known();
        break;
      case Check::reject_unknown_sender_domain:
        if (subject_.sender)
          answer = co_await domain_known(*subject_.sender, sender_label(), "4.1.8", "5.7.27", 550);
        break;
      case Check::reject_unknown_recipient_domain:
        if (subject_.recipient)
          answer =
              co_await domain_known(*subject_.recipient, recipient_label(), "4.1.2", "5.1.10", 556);
        break;
      case Check::reject_unlisted_sender:
        if (subject_.sender) answer = co_await unlisted(*subject_.sender, sender_label(), true);
        break;
      case Check::reject_unlisted_recipient:
        if (subject_.recipient)
          answer = co_await unlisted(*subject_.recipient, recipient_label(), false);
        break;
      case Check::check_client_access:
      case Check::check_reverse_client_hostname_access:
      case Check::check_helo_access:
      case Check::check_sender_access:
      case Check::check_recipient_access:
      case Check::check_ccert_access:
      case Check::check_sasl_access:
        answer = co_await access(r, name);
        break;
      case Check::permit_tls_clientcerts:
        answer = co_await clientcerts();
        break;
      case Check::reject_sender_login_mismatch:
      case Check::reject_authenticated_sender_login_mismatch:
      case Check::reject_known_sender_login_mismatch:
      case Check::reject_unauthenticated_sender_login_mismatch:
        answer = co_await login_mismatch(r.check);
        break;
      case Check::restriction_class:
        answer = co_await run(policy_.classes[r.class_index], name);
        break;
      default:
        answer = at_once(r, name);
        break;
    }
    warn_ = outer_warn;
    if (answer != Answer::dunno) break;
  }
  --depth_;
  co_return answer;
}

async::Task<Checks::Answer> Checks::run_lists_before_recipient(bool with_sender) {
  if (!policy_.client.empty() && co_await run(policy_.client, client_name()) == Answer::reject)
    co_return Answer::reject;
  if_reject_ = false;
  if (!policy_.helo.empty() && !subject_.helo->empty() &&
      co_await run(policy_.helo, helo_label()) == Answer::reject)
    co_return Answer::reject;
  if_reject_ = false;
  if (with_sender && !policy_.sender.empty() &&
      co_await run(policy_.sender, sender_label()) == Answer::reject)
    co_return Answer::reject;
  if_reject_ = false;
  co_return Answer::dunno;
}

Verdict Checks::finish(Answer answer) {
  Verdict verdict;
  verdict.effects = std::move(effects_);
  if (answer == Answer::reject) {
    verdict.reply = std::move(reply_);
    verdict.error = error_;
  } else if (!if_permit_.empty()) {
    log_line("reject", if_permit_);
    verdict.reply = std::move(if_permit_);
  }
  return verdict;
}

async::Task<Verdict> Checks::client() {
  if (policy_.settings.smtpd_delay_reject || policy_.client.empty()) co_return Verdict{};
  subject_.where = "CONNECT";
  co_return finish(co_await run(policy_.client, client_name()));
}

async::Task<Verdict> Checks::helo() {
  if (policy_.settings.smtpd_delay_reject || policy_.helo.empty()) co_return Verdict{};
  co_return finish(co_await run(policy_.helo, helo_label()));
}

async::Task<Verdict> Checks::sender() {
  subject_.where = "MAIL";
  Answer answer = Answer::dunno;
  if (!policy_.settings.smtpd_delay_reject && !policy_.sender.empty())
    answer = co_await run(policy_.sender, sender_label());
  if (answer != Answer::reject && policy_.settings.smtpd_reject_unlisted_sender && subject_.sender)
    answer = co_await unlisted(*subject_.sender, sender_label(), true);
  co_return finish(answer);
}

async::Task<Verdict> Checks::recipient() {
  const auto& s = policy_.settings;
  // Without a domain it is taken from anybody (RFC 5321 sections 2.3.5 and 4.5.1), as Postfix does.
  if (iequals(*subject_.recipient, "postmaster")) co_return Verdict{};
  Answer answer = Answer::dunno;
  if (s.smtpd_delay_reject)
    answer = co_await run_lists_before_recipient(subject_.sender.has_value());
  for (int i = 0; i < 2 && answer != Answer::reject; ++i) {
    const bool relay = (i == 0) == s.smtpd_relay_before_recipient_restrictions;
    if_reject_ = false;
    const RestrictionList& list = relay ? policy_.relay : policy_.recipient;
    if (!list.empty()) answer = co_await run(list, recipient_label());
  }
  if (answer != Answer::reject && s.smtpd_reject_unlisted_recipient &&
      policy_.unknown_recipient_checks) {
    if_reject_ = false;
    answer = co_await unlisted(*subject_.recipient, recipient_label(), false);
  }
  co_return finish(answer);
}

async::Task<Verdict> Checks::data() {
  subject_.where = "DATA";
  if (policy_.data.empty()) co_return Verdict{};
  co_return finish(co_await run(policy_.data, Name{"DATA", "Data command"}));
}

async::Task<Verdict> Checks::end_of_data() {
  subject_.where = "END-OF-MESSAGE";
  after_content_ = true;
  if (policy_.end_of_data.empty()) co_return Verdict{};
  co_return finish(co_await run(policy_.end_of_data, Name{"END-OF-MESSAGE", "End-of-data"}));
}

}  // namespace pen::smtpd
