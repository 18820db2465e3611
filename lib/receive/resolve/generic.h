#pragma once
/// Replaces addresses that only this site knows by public ones when mail leaves (smtp_generic_maps).
///
/// Use:     auto generic = Generic::open(options, "hash:/etc/x/generic");  generic->map("jo@host.localdomain")
/// Keys:    user@domain, user (domains of this host), @domain, as in generic(5). An extension that the key did not
///          contain is kept if propagate_unmatched_extensions names generic.
/// Errors:  of tables: temporary.
/// Thread:  any; immutable after open() but for the tables' own reloading.
#include "lib/receive/resolve/resolve.h"

namespace pen::resolve {

struct Tables;

class Generic {
 public:
  /// Only those options matter that say which domains are this host's, and how addresses are completed.
  static Result<Generic> open(Options options, const std::string& maps);
  /// Takes and returns an address in external form; returns it unchanged if no table has it.
  Result<std::string> map(std::string_view address) const;
  bool blocking() const { return maps_.blocking(); }
  std::vector<Error> problems() const { return maps_.problems(); }

 private:
  Options options_;
  map::MapList maps_;
  std::shared_ptr<const Tables> tables_;
};

}  // namespace pen::resolve
