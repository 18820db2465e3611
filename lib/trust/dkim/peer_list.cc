#include "lib/trust/dkim/peer_list.h"

#include <algorithm>
#include <ranges>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/trust/dkim/opendkim_files.h"

namespace pen::dkim {
namespace {

/// The address with the bits beyond the mask taken away.
IpAddress masked(IpAddress address, unsigned bits) {
  for (unsigned i = 0; i < address.size; ++i) {
    const unsigned kept = bits >= 8 * (i + 1) ? 8 : bits <= 8 * i ? 0 : bits - 8 * i;
    address.bytes[i] = static_cast<std::uint8_t>(address.bytes[i] & (0xff00U >> kept));
  }
  return address;
}

std::string network_text(const IpAddress& address, unsigned bits) {
  return masked(address, bits).text() + "/" + std::to_string(bits);
}

}  // namespace

PeerList PeerList::of(const std::vector<std::string>& entries, bool patterns) {
  PeerList list;
  for (const std::string& entry : entries) {
    const std::string fault = list.add(to_lower(entry), patterns);
    if (!fault.empty()) list.faults_.push_back("\"" + printable(entry, 100) + "\" matches no client: " + fault);
  }
  return list;
}

std::string PeerList::add(std::string entry, bool patterns) {
  const std::size_t sign = entry.starts_with('!') ? 1 : 0;
  return add_host(std::string_view(entry).substr(0, sign), std::string_view(entry).substr(sign), patterns);
}

std::string PeerList::add_host(std::string_view sign, std::string_view host, bool patterns) {
  if (host.contains('*')) {
    if (!patterns) return "* has no meaning outside of a refile";
    patterns_.push_back(std::string(sign) + std::string(host));
    all_bits_ = all_bits_ || host.contains('/');
    if (!sign.empty() || !host.starts_with('*')) return {};
    return "a pattern that begins with * excludes whom it names; a domain is written as .example.org";
  }
  const auto slash = host.find('/');
  const std::string_view shown = host.substr(0, slash);
  const auto address = parse_ip(shown);
  if (address && shown.starts_with('[') && address->size == 4) return "brackets are for IPv6 addresses";
  if (slash == std::string_view::npos) {
    plain_.insert(std::string(sign) + (address ? address->text() : std::string(host)));
    return {};
  }
  const auto bits = parse_unsigned(host.substr(slash + 1));
  if (!address || !bits || *bits > 8U * address->size) return "not a network: address/bits";
  const std::string network = network_text(*address, static_cast<unsigned>(*bits));
  if (!(masked(*address, static_cast<unsigned>(*bits)) == *address))
    return "bits are set beyond the mask; the network is " + network;
  bits_.insert(static_cast<unsigned>(*bits));
  plain_.insert(std::string(sign) + network);
  return {};
}

bool PeerList::has(const std::string& word) const {
  return plain_.contains(word) ||
         std::ranges::any_of(patterns_, [&](const std::string& p) { return wildcard_match(p, word); });
}

PeerList::Says PeerList::says(std::string_view word) const {
  const std::string no = "!" + std::string(word);
  if (has(no)) return Says::no;
  return has(no.substr(1)) ? Says::yes : Says::nothing;
}

bool PeerList::matches(std::string_view name, std::string_view address) const {
  if (plain_.empty() && patterns_.empty()) return false;
  const std::string host = to_lower(name);
  Says found = Says::nothing;
  for (std::size_t at = 0; found == Says::nothing && at < host.size();) {
    found = says(std::string_view(host).substr(at));
    at = std::min(host.find('.', at + 1), host.size());
  }
  // A name that is excluded may still be in by its address.
  if (found == Says::yes) return true;
  const auto ip = parse_ip(address);
  if (!ip) return false;
  found = says(ip->text());
  const auto ask = [&](unsigned bits) {
    if (found == Says::nothing && bits <= 8U * ip->size) found = says(network_text(*ip, bits));
  };
  if (all_bits_) {
    for (unsigned bits = 8U * ip->size + 1; bits-- > 0;) ask(bits);
  } else {
    for (const unsigned bits : bits_ | std::views::reverse) ask(bits);
  }
  return found == Says::yes;
}

}  // namespace pen::dkim
