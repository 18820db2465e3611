#include "lib/trust/dkim/tag_list.h"

#include <algorithm>

#include "lib/base/text.h"

namespace pen::dkim {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trim_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool is_name(std::string_view name) {
  return !name.empty() && ascii_alpha(name.front()) &&
         std::ranges::all_of(name, [](char c) { return ascii_alnum(c) || c == '_'; });
}

bool is_value_char(char c) { return is_blank(c) || (static_cast<unsigned char>(c) > ' ' && c != '\x7f'); }

}  // namespace

std::string_view describe(DkimError e) {
  switch (e) {
    case DkimError::syntax:
      return "malformed";
    case DkimError::unsupported:
      return "not supported";
    case DkimError::bad_key:
      return "not a usable key";
    case DkimError::weak_key:
      return "too short a key";
    case DkimError::too_large:
      return "too large";
  }
  return "unknown";
}

Result<TagList> TagList::parse(std::string_view text) {
  TagList list;
  for (;;) {
    const auto end = text.find(';');
    const auto spec = trim_blanks(text.substr(0, end));
    if (spec.empty() && end == std::string_view::npos) break;  // the last semicolon is optional
    const auto equals = spec.find('=');
    if (equals == std::string_view::npos) return fail(DkimError::syntax, "no = in a tag");
    const auto name = trim_blanks(spec.substr(0, equals));
    const auto value = trim_blanks(spec.substr(equals + 1));
    if (!is_name(name)) return fail(DkimError::syntax, "tag name " + printable(name, 40));
    if (!std::ranges::all_of(value, is_value_char)) return fail(DkimError::syntax, std::string(name) + "=");
    if (list.find(name) != nullptr) return fail(DkimError::syntax, std::string(name) + "= twice");
    if (list.tags_.size() == kMax) return fail(DkimError::syntax, "too many tags");
    list.tags_.push_back({name, value});
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return list;
}

const std::string_view* TagList::find(std::string_view name) const {
  const auto found = std::ranges::find(tags_, name, &Tag::name);
  return found == tags_.end() ? nullptr : &found->value;
}

std::string without_blanks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::ranges::copy_if(text, std::back_inserter(out), [](char c) { return !is_blank(c); });
  return out;
}

std::vector<std::string_view> colon_list(std::string_view text) {
  std::vector<std::string_view> items;
  for (;;) {
    const auto end = text.find(':');
    items.push_back(trim_blanks(text.substr(0, end)));
    if (end == std::string_view::npos) return items;
    text.remove_prefix(end + 1);
  }
}

}  // namespace pen::dkim
