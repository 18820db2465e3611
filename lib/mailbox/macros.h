#pragma once
/// "$name" in settings and arguments whose values only a delivery knows (forward_path, luser_relay, pipe's argv). Pure.
///
/// Safety:  a value is put in as it is, whatever it holds: names in it are not looked at again. With a filter, what the
///          filter does not name becomes '_', so that an address from outside cannot leave its place in a path or in a
///          shell's command.
/// Source:  postconf(5), forward_expansion_filter, command_expansion_filter, execution_directory_expansion_filter.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/config/expand.h"

namespace pen::mailbox {

using Values = std::vector<std::pair<std::string_view, std::string>>;

/// All of $name, ${name}, $(name), ${name?text}, ${name:text}; "$$" is "$". Unknown names become nothing, and so does a
/// text that is wrong. filter empty: none.
std::string expand_macros(std::string_view text, const Values& values, std::string_view filter = {});

/// The same, and what the text was made of: `used` and `undefined` of config::Expanded. An empty value is not defined.
config::Expanded expand_values(std::string_view text, const Values& values, std::string_view filter = {});

/// The value with '_' for each character that the filter does not name.
std::string filtered(std::string_view value, std::string_view filter);

}  // namespace pen::mailbox
