#pragma once
/// Addresses that only this site knows, turned into ones that the world knows when mail leaves (smtp_generic_maps).
///
/// Use:     auto generic = Generic::open(options, "hash:/etc/x/generic");  generic->map("jo@host.localdomain")
/// Keys:    user@domain, user (domains of this host), @domain, as generic(5) has them; an extension that the table did
///          not name is kept if propagate_unmatched_extensions says generic.
/// Errors:  of tables: temporary.
/// Thread:  any; immutable after open() but for the tables' own reloading.
#include "lib/resolve/resolve.h"

namespace pen::resolve {

struct Tables;

class Generic {
 public:
  /// Of the options only what says which domains are this host's is looked at, and how addresses are completed.
  static Result<Generic> open(Options options, const std::string& maps);
  /// In external form; it comes back as it was where no table has it.
  Result<std::string> map(std::string_view address) const;
  bool blocking() const { return maps_.blocking(); }
  std::vector<Error> problems() const { return maps_.problems(); }

 private:
  Options options_;
  map::MapList maps_;
  std::shared_ptr<const Tables> tables_;
};

}  // namespace pen::resolve
