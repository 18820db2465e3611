/// XFORWARD and XCLIENT: what a content filter or a proxy says about the client for which it speaks.
#include <fmt/format.h>

#include <expected>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/client_attributes.h"
#include "smtpd/arrival.h"
#include "smtpd/session.h"

namespace pen::smtpd {

using Kind = mail::ClientAttribute::Kind;

namespace {
/// A name of an attribute as nearly everybody writes it.
std::string as_said(std::string name) {
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}

/// What XFORWARD or XCLIENT says; or the reply, where it is not for this client, not now, or makes no sense.
std::expected<std::vector<mail::ClientAttribute>, std::string> attributes_of(const Conversation& talk,
                                                                             const mail::CommandLine& line,
                                                                             std::string_view verb, bool permitted) {
  if (talk.transaction) return std::unexpected("503 5.5.1 Error: MAIL transaction in progress");
  if (trim(line.args).empty()) return std::unexpected(fmt::format("501 5.5.4 Syntax: {} attribute=value...", verb));
  if (!permitted) return std::unexpected("550 5.7.0 Error: insufficient authorization");
  auto attributes = mail::parse_client_attributes(line.args);
  if (!attributes) return std::unexpected("501 5.5.4 Error: attribute=value expected");
  return *std::move(attributes);
}

}  // namespace

async::Task<Flow> Session::xforward(const mail::CommandLine& line) {
  const auto attributes = attributes_of(talk_, line, "XFORWARD", talk_.standing.may_xforward);
  if (!attributes) co_return co_await talk_.refuse(attributes.error());
  Forwarded next = talk_.client.forwarded ? *talk_.client.forwarded : Forwarded();
  for (const auto& a : *attributes) {
    const std::string value = a.kind == Kind::value ? a.value : std::string();
    if (a.name == "name") {
      next.client.name = value.empty() ? "unknown" : value;
    } else if (a.name == "addr") {
      // Without an address it would look like mail that was submitted here.
      next.client.address = a.kind == Kind::value ? mail::client_address(value) : std::string(kUnknownAddress);
      if (next.client.address.empty()) {
        co_return co_await talk_.refuse("501 5.5.4 Bad ADDR syntax: " + printable(value, 100));
      }
    } else if (a.name == "port") {
      const auto port = parse_unsigned(value);
      next.client.port = port && *port < 65536 ? static_cast<std::uint16_t>(*port) : std::uint16_t{0};
    } else if (a.name == "proto") {
      next.client.protocol = value;
    } else if (a.name == "helo") {
      next.client.helo = value;
    } else if (a.name == "ident") {
      next.ident = value;
    } else if (a.name == "source") {
      next.local = a.kind == Kind::value ? std::optional(iequals(value, "LOCAL")) : std::nullopt;
    } else {
      co_return co_await talk_.refuse(
          fmt::format("501 5.5.4 Bad XFORWARD attribute name: {}", printable(as_said(a.name), 50)));
    }
  }
  talk_.client.forwarded = std::make_unique<Forwarded>(std::move(next));
  talk_.reply("250 2.0.0 Ok");
  co_return Flow::go_on;
}

struct Session::NewClient {
  Peer peer;
  async::SocketAddress reached;
  std::string helo = {};
  bool extended = false;
  std::unique_ptr<Login> login = {};
  bool named = false, reverse = false;

  /// Empty: the attribute is taken; else the reply that refuses it.
  std::string take(const mail::ClientAttribute& a);
  /// After the last attribute: what follows from the names that were given.
  void settle_names();
};

std::string Session::NewClient::take(const mail::ClientAttribute& a) {
  const std::string value = a.kind == Kind::value ? a.value : std::string();
  const auto name = [&a](std::string& into, NameState& state) {
    into = a.kind == Kind::value ? a.value : "unknown";
    state = a.kind == Kind::value         ? NameState::ok
            : a.kind == Kind::unavailable ? NameState::missing
                                          : NameState::temporary;
  };
  std::string bad;
  if (a.name == "name") {
    name(peer.name, peer.name_state);
    named = true;
  } else if (a.name == "reverse_name") {
    name(peer.reverse_name, peer.reverse_state);
    reverse = true;
  } else if (a.name == "addr") {
    peer.address = a.kind == Kind::unavailable ? std::string(kUnknownAddress) : mail::client_address(value);
    if (peer.address.empty()) bad = "ADDR";
  } else if (a.name == "port") {
    const auto port = parse_unsigned(value);
    if (!value.empty() && (!port || *port > 65535)) bad = "PORT";
    peer.port = static_cast<std::uint16_t>(port.value_or(0));
  } else if (a.name == "helo") {
    helo = value;
  } else if (a.name == "proto") {
    extended = iequals(value, "ESMTP");
    if (!extended && !iequals(value, "SMTP")) bad = "PROTO";
  } else if (a.name == "destaddr") {  // our address that the client connected to
    reached.host = mail::client_address(value);
    if (a.kind != Kind::unavailable && reached.host.empty()) bad = "DESTADDR";
  } else if (a.name == "destport") {
    const auto port = parse_unsigned(value);
    if (a.kind != Kind::unavailable && (!port || *port > 65535)) bad = "DESTPORT";
    reached.port = static_cast<std::uint16_t>(port.value_or(0));
  } else if (a.name == "login") {
    if (!value.empty()) login.reset(new Login{.method = "XCLIENT", .username = value});
  } else {
    return fmt::format("501 5.5.4 Bad XCLIENT attribute name: {}", printable(as_said(a.name), 50));
  }
  return bad.empty() ? "" : fmt::format("501 5.5.4 Bad {} syntax: {}", bad, printable(value, 100));
}

void Session::NewClient::settle_names() {
  // A verified name is also the reverse name, unless REVERSE_NAME gives another.
  if (!reverse && named && peer.name_state == NameState::ok) {
    peer.reverse_name = peer.name;
    peer.reverse_state = NameState::ok;
  }
  // Of a name that does not lead back to the client XCLIENT does not say whether it leads anywhere.
  if (named || reverse)
    peer.forward_state = peer.reverse_state != NameState::ok       ? peer.reverse_state
                         : peer.name_state == NameState::temporary ? NameState::temporary
                                                                   : NameState::ok;
  peer.own_address = false;
}

/// The session begins anew, as if that client had just connected: with its rights and its limits. What a proxy passes
/// on from now on may be that client's own commands, so the proxy's right to XCLIENT must have ended.
void Session::become(NewClient next) {
  if (!first_peer_) first_peer_ = std::make_unique<Peer>(talk_.client.peer);
  talk_.client.peer = std::move(next.peer);
  talk_.client.helo = std::move(next.helo);
  talk_.client.esmtp = next.extended;
  talk_.client.login = std::move(next.login);
  if (!next.reached.host.empty() || next.reached.port != 0)
    talk_.client.reached = std::make_unique<async::SocketAddress>(next.reached);
  talk_.client.forwarded.reset();
  access_denied_.clear();
  limits_.peer_changed();
}

async::Task<Flow> Session::xclient(const mail::CommandLine& line) {
  const auto attributes = attributes_of(talk_, line, "XCLIENT", talk_.standing.may_xclient);
  if (!attributes) co_return co_await talk_.refuse(attributes.error());
  NewClient next{.peer = talk_.client.peer,
                 .reached = talk_.client.reached ? *talk_.client.reached : async::SocketAddress()};
  for (const auto& a : *attributes)
    if (const std::string no = next.take(a); !no.empty()) co_return co_await talk_.refuse(no);
  next.settle_names();
  become(std::move(next));
  co_await ask_lists_about_address(talk_);
  co_await learn_standing();
  talk_.watchers.client_known();
  if (co_await too_many_connections()) co_return Flow::close;
  co_return co_await greet();
}

}  // namespace pen::smtpd
