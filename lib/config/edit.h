#pragma once
/// Edits main.cf and leaves its comments and everything else unchanged.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::config {

struct Edit {
  enum class Kind { set, comment_out, remove };
  Kind kind = Kind::set;
  std::string name, value;  ///< value: of set only, one line
};

/// The text after the edits. An existing setting is changed where it is; if it is there twice, at its last place, and
/// the others are removed. A new setting is added at the end. Comments between continuation lines stay. Pure.
/// Errors: bad_value (a name or value that main.cf cannot hold).
Result<std::string> edit_main_cf(std::string_view text, const std::vector<Edit>& edits);

/// The lines of main.cf or master.cf as they stand, without their ends.
std::vector<std::string> physical_lines(std::string_view text);
/// Whether a line is a comment or empty: it ends no logical line.
bool is_comment(std::string_view line);

/// Replaces the content of an existing file in one step and keeps owner and mode. A reader sees the old or the new
/// text, also after a power cut. Errors: errno, with the step that failed.
Result<void> replace_file(const std::string& path, std::string_view text);

}  // namespace pen::config
