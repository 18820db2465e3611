#pragma once
/// Changes to main.cf that leave its comments and everything else as it is.
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

/// The text after the edits. A setting that stands there is changed where it stands (where its last
/// value does, if it stands there twice; the others go); a new one is added at the end. Comments
/// between continuation lines stay. Pure.
/// Errors: bad_value (a name or value that main.cf cannot hold).
Result<std::string> edit_main_cf(std::string_view text, const std::vector<Edit>& edits);

/// Replaces the content of an existing file in one step, keeping owner and mode; a reader sees the
/// old or the new text, also after a power cut. Errors: errno, with the step that failed.
Result<void> replace_file(const std::string& path, std::string_view text);

}  // namespace pen::config
