#pragma once
/// Lists that answer yes or no: mynetworks, mydestination, relay_domains, debug_peer_list and others.
///
/// Form:    patterns separated by commas or white space; /file/name reads patterns from a file; type:table
///          matches when the table has the key; !pattern means "no" when it matches. The first match decides.
/// Use:     auto mydestination = MatchList::open(MatchList::Kind::domain, value, {});
///          Result<bool> yes = mydestination->matches("example.org");
/// Errors:  as with maps: an Error means "not known now", never "no".
/// Thread:  any; immutable but for the tables' own reloading.
/// Source:  Postfix: mynetworks, mydestination, parent_domain_matches_subdomains.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/network.h"
#include "lib/map/map.h"

namespace pen::map {

class MatchList {
 public:
  enum class Kind {
    string,  // equal in any case and either form of a domain (lib/base/idn), or the table has the string
    domain,  // the same; and sub-domains match .parent, or parent itself with parent_domains
    // A numeric address in a network ("192.0.2.0/24", "[2001:db8::]/32"), or the table has the address.
    network,
    host,  // namadr lists: host name by `domain`, address by `network`
  };
  struct Options {
    bool parent_domains = false;  // parent_domain_matches_subdomains names this list
    OpenOptions open;
    // A network that cannot be read is no error of open(): as in Postfix, the look-up of an address that would be
    // compared with it fails, and the program starts and serves other clients.
    bool keep_faulty = false;
  };
  MatchList() = default;
  /// Errors: syntax (bad network, host bits set in a network), unknown_type, bad_spec, unreadable (/file).
  static Result<MatchList> open(Kind kind, std::string_view value, const Options& options);

  /// Kind string and domain. Domains: "[192.0.2.1]" literals are compared as strings.
  Result<bool> matches(std::string_view text) const;
  /// Kind network: numeric address. Kind host: name may be "unknown".
  Result<bool> matches_address(std::string_view address) const;
  Result<bool> matches_host(std::string_view name, std::string_view address) const;
  bool empty() const { return items_.empty(); }
  /// What keep_faulty kept.
  std::vector<std::string> faults() const;
  bool blocking() const;
  /// Whether some item is a table: matches may then change although the list does not.
  bool has_tables() const;

 private:
  /// The name that is looked for: folded, and the other way to write it, which only names beyond ASCII have.
  struct Name {
    explicit Name(std::string_view text);
    std::string folded;
    std::vector<std::string> others;
  };
  struct Item {
    bool negated = false;
    std::string text;            // folded
    std::shared_ptr<Map> table;  // or
    Network network;             // or
    bool is_network = false;
    std::string fault;  // of a network that cannot be read
    Result<bool> matches_name(const Name& name, Kind kind, bool parent_domains) const;
    bool is_text_of(std::string_view name, bool parents, bool parent_domains) const;
    Result<bool> matches_address(const IpAddress& address, const std::string& text_in) const;
  };
  Result<void> add(std::string_view value, bool negated_outside, unsigned depth);
  Kind kind_ = Kind::string;
  Options options_;
  std::vector<Item> items_;
};

}  // namespace pen::map
