#pragma once
/// Expands "$name" in settings and arguments whose values only a delivery knows (forward_path, luser_relay, pipe's
/// argv). Pure.
///
/// Safety:  a value is inserted unchanged; names inside it are not expanded. With a filter, characters not in the
///          filter become '_', so that an address from outside cannot break out of its place in a path or a shell
///          command.
/// Source:  postconf(5), forward_expansion_filter, command_expansion_filter, execution_directory_expansion_filter.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/config/expand.h"

namespace pen::mailbox {

using Values = std::vector<std::pair<std::string_view, std::string>>;

/// Expands $name, ${name}, $(name), ${name?text}, ${name:text}; "$$" is "$". Unknown names and malformed text become
/// nothing. filter empty: none.
std::string expand_macros(std::string_view text, const Values& values, std::string_view filter = {});

/// The same, with `used` and `undefined` of config::Expanded. An empty value counts as undefined.
config::Expanded expand_values(std::string_view text, const Values& values, std::string_view filter = {});

/// The value with '_' for each character that is not in the filter.
std::string filtered(std::string_view value, std::string_view filter);

}  // namespace pen::mailbox
