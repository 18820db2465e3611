#include "lib/map/mongodb_filter.h"

#include <algorithm>
#include <array>
#include <vector>

namespace pen::map {
namespace {

constexpr std::size_t kDeepest = 100;  // as in MongoDB's documents

/// Operators that compare values, or join comparisons.
constexpr std::array<std::string_view, 14> kCompare = {"$all", "$and", "$elemMatch", "$eq",  "$gt",  "$gte", "$in",
                                                       "$lt",  "$lte", "$ne",        "$nin", "$nor", "$not", "$or"};

/// An object or an array that has not ended.
struct Open {
  bool object = false;
  bool name_next = false;       // in an object: the next string is the name of a field
  std::string_view field = {};  // in an object: the last of them, as it is written
};

}  // namespace

std::string misplaced_in_filter(std::string_view filter) {
  std::vector<Open> open;
  bool in_string = false;
  std::size_t began = 0;
  for (std::size_t i = 0; i < filter.size(); ++i) {
    const char c = filter[i];
    if (in_string) {
      if (c == '\\') {
        const std::size_t size = filter.substr(i + 1).starts_with('u') ? 5 : 1;
        if (i + size >= filter.size()) return "a backslash stands before a part of the key";
        i += size;
      } else if (c == '"') {
        in_string = false;
        if (!open.empty() && open.back().name_next) {
          open.back().name_next = false;
          open.back().field = filter.substr(began, i - began);
        }
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
      began = i + 1;
    } else if (c == '{' || c == '[') {
      if (open.size() == kDeepest) return "the document is too deep";
      open.push_back({.object = c == '{', .name_next = c == '{'});
    } else if (c == '}' || c == ']') {
      if (open.empty()) return "there is a bracket too many";
      open.pop_back();
    } else if (c == ',' && !open.empty()) {
      open.back().name_next = open.back().object;
    }
  }
  if (!in_string) return "a part of the key must stand between double quotes: \"%s\"";
  if (open.empty()) return "it must be a document: { … }";
  if (open.back().name_next) return "the name of a field cannot have a part of the key in it";
  for (const Open& level : open) {
    if (level.field.contains('\\')) return "a name with a backslash is not allowed above a part of the key";
    if (level.field.starts_with('$') && std::ranges::find(kCompare, level.field) == kCompare.end())
      return "below " + std::string(level.field) +
             " a key would be more than a value to compare with; write a comparison";
  }
  return {};
}

bool quote_in_filter(std::string_view part, std::string& filter) {
  if (part.contains('\0') || !misplaced_in_filter(filter).empty()) return false;
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      filter += "\\u00";
      filter += kHex[byte >> 4];
      filter += kHex[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') filter += '\\';
    filter += c;
  }
  return true;
}

}  // namespace pen::map
