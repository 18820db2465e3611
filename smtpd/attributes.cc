#include "smtpd/attributes.h"

#include "lib/base/date.h"
#include "lib/mail/address.h"

namespace pen::smtpd {
namespace {

/// "Nov 24 08:46:56", as the log has it.
std::string local_time(WallTime now) { return local_text(now, "%b %d %H:%M:%S"); }

/// $sender, $sender_name, $sender_domain and the same of a recipient. part: what follows the first word.
std::optional<std::string> address_attribute(std::string_view part, const std::optional<std::string>& address) {
  const bool whole = part.empty(), name = part == "_name", domain = part == "_domain";
  if (!whole && !name && !domain) return std::nullopt;
  if (!address) return "";
  if (domain) return std::string(mail::domain_part(*address));
  if (address->empty()) return "<>";
  return whole ? mail::to_internal(*address) : mail::unquote_local(mail::local_part(*address));
}

}  // namespace

std::optional<std::string> session_attribute(std::string_view name, const Subject& about, const config::Settings& s,
                                             WallTime now) {
  const Peer& peer = about.client->peer;
  if (name == "client") return peer.shown();
  if (name == "client_address") return peer.address;
  if (name == "client_name") return peer.name;
  if (name == "client_port") return std::to_string(peer.port);
  if (name == "reverse_client_name") return peer.reverse_name;
  if (name == "helo_name") return about.client->helo;
  if (name == "server_name") return s.myhostname;
  if (name == "localtime") return local_time(now);
  if (name.starts_with("sender")) return address_attribute(name.substr(6), about.sender);
  if (name.starts_with("recipient")) return address_attribute(name.substr(9), about.recipient);
  return std::nullopt;
}

}  // namespace pen::smtpd
