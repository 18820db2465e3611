#pragma once
/// Edits master.cf and leaves its comments and the services that no edit is of unchanged.
///
/// Use:     const auto done = edit_master_cf(text, {{.of = ServiceEdit::Of::column, .name = "*", .type = "*",
///                                                   .part = "chroot", .value = "n"}});
/// Source:  postconf(1), -M, -F and -P with -e, -X and -#.
/// Pure; any thread.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/config/edit.h"
#include "lib/config/master_cf.h"

namespace pen::config {

/// The names of the eight columns, in their order.
inline constexpr const char* kColumnNames[] = {"service", "type",   "private",       "unprivileged",
                                               "chroot",  "wakeup", "process_limit", "command"};

struct ServiceEdit {
  enum class Of { service, column, setting };
  Edit::Kind kind = Edit::Kind::set;  // of columns: set only; of settings: not comment_out
  Of of = Of::service;
  std::string name = {}, type = {};  // "*": any. A service that is set is one
  std::string part = {};             // the column's name, or the setting's of -o
  std::string value = {};  // of set; of a service its whole line. The column "command" is the rest of the line
};

struct EditedServices {
  std::string text;
  std::vector<const ServiceEdit*> unmatched;  // edits of services that are not there; they change nothing
};
/// The text after the edits. A service that is set and not there is added at the end; one that is there twice is left
/// at its last place. Comments between its lines stay, before it. Errors: bad_value (a column that does not exist, a
/// line that is no service).
Result<EditedServices> edit_master_cf(std::string_view text, const std::vector<ServiceEdit>& edits);

/// A service as a line of master.cf, with `words` after the columns; folded: each -o on a line of its own,
/// and no line of more than 79 characters where it can be broken, as postconf has it.
std::string service_text(const Service& service, const std::vector<std::string>& words, bool folded);

}  // namespace pen::config
