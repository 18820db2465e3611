#pragma once
/// What can be wrong with signatures, keys and tables that come from outside.
#include "lib/base/result.h"

namespace pen::dkim {

enum class DkimError {
  syntax = 1,   // a tag list, a signature, a record, a table
  unsupported,  // an algorithm, version or key type that this version does not have
  bad_key,      // a key that cannot be read
  weak_key,     // fewer bits than wanted
  too_large,
};
inline std::string_view error_module(DkimError) { return "dkim"; }
std::string_view describe(DkimError e);

}  // namespace pen::dkim
