#pragma once
/// For tests of the tools: reads command lines given as lists of words.
#include <expected>
#include <initializer_list>
#include <string>
#include <vector>

#include "lib/suite/service/command_line.h"

namespace pen::tools {

template <class Tool>
auto read_options(std::initializer_list<const char*> words) {
  std::vector<const char*> argv = {"tool"};
  argv.insert(argv.end(), words);
  return Tool::read(static_cast<int>(argv.size()), argv.data());
}

/// The error text of a command line, or what --help prints; empty: it is valid.
template <class Tool>
std::string refusal(std::initializer_list<const char*> words) {
  const auto read = read_options<Tool>(words);
  return read ? std::string() : read.error().text;
}

}  // namespace pen::tools
