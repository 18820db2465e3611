#pragma once
/// Hides host names in addresses: user@host.example.com becomes user@example.com.
///
/// Use:     auto masquerade = Masquerade::open(options);  masquerade->hide("root@a.example.com", Place::header_sender)
/// Rules:   the first entry of masquerade_domains that is the address's domain or a parent of it decides: it replaces
///          the domain, or, with "!" in front, leaves it. Local parts in masquerade_exceptions stay unchanged.
/// Errors:  of a table in masquerade_exceptions: temporary.
/// Thread:  any; immutable after open().
/// Source:  Postfix ADDRESS_REWRITING_README, masquerade_domains.
#include "lib/receive/resolve/resolve.h"

namespace pen::resolve {

class Masquerade {
 public:
  static Result<Masquerade> open(const Options& options);
  /// For an address after rewriting and canonical maps; returns it unchanged if no rule applies.
  Result<std::string> hide(std::string address, Place place) const;
  bool blocking() const { return !domains_.empty() && exceptions_.blocking(); }

 private:
  struct Domain {
    std::string name;  // lower case
    bool hides = true;
  };
  std::vector<Domain> domains_;
  std::string classes_;
  map::MatchList exceptions_;
};

}  // namespace pen::resolve
