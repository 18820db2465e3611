#pragma once
/// OpenDKIM's lists of hosts (InternalHosts, often called TrustedHosts): which clients are in one.
///
/// Use:     const PeerList list = PeerList::of(entries, patterns);        // patterns: of a refile
///          if (list.matches(client_name, "192.0.2.7")) …
///          for (auto& fault : list.faults()) …                            // entries that match nobody
/// Entries: a host name; .domain for all names below it; an address; network/bits. In any case, IPv6 with or without
///          brackets. With ! in front: not. Names are looked at before addresses, and what says more before what says
///          less, whatever the order of the lines: the name, its domains, the address, networks by their bits.
/// As is:   what OpenDKIM does not match, this does not match: a network with bits beyond its mask, a mask as an
///          address, "*" where there are no patterns; and a pattern that begins with "*" matches each "!" that is asked
///          for first, so that it excludes the clients that were meant. Each is a fault, for its author meant
///          something else.
/// Thread:  any.
/// Source:  opendkim.conf(5), PeerList; compared with opendkim 2.11 (tests/integration/test_dkim.py).
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pen::dkim {

class PeerList {
 public:
  static PeerList of(const std::vector<std::string>& entries, bool patterns);
  bool matches(std::string_view name, std::string_view address) const;
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  /// Returns what is wrong with an entry; empty: it was added.
  std::string add(std::string entry, bool patterns);
  std::string add_host(std::string_view sign, std::string_view host, bool patterns);
  /// What the list says of a name, an address or a network.
  enum class Says : char { nothing, no, yes };
  Says says(std::string_view word) const;
  bool has(const std::string& word) const;

  std::set<std::string, std::less<>> plain_;
  std::vector<std::string> patterns_;
  std::set<unsigned> bits_;  // of the networks
  bool all_bits_ = false;    // a pattern may name a network
  std::vector<std::string> faults_;
};

}  // namespace pen::dkim
