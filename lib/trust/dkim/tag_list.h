#pragma once
/// Lists of "tag=value" as in DKIM-Signature: fields and key records.
///
/// Use:     auto tags = TagList::parse("v=1; a=rsa-sha256; d=example.org");   if (const auto* d = tags->find("d")) …
/// Form:    names keep their case; values have no blanks around them, but those inside, folding included.
/// Owns:    nothing: views into the text.
/// Errors:  syntax: a word that is no name, a tag twice, a control character in a value, more than kMax tags.
/// Source:  RFC 6376 section 3.2; RFC 8616 (UTF-8 in values). Pure.
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/dkim/error.h"

namespace pen::dkim {

class TagList {
 public:
  // The standards know fourteen tags.
  static constexpr std::size_t kMax = 100;
  static Result<TagList> parse(std::string_view text);
  /// nullptr: there is no such tag. An empty value is a value.
  const std::string_view* find(std::string_view name) const;

 private:
  struct Tag {
    std::string_view name, value;
  };
  std::vector<Tag> tags_;
};

/// The text without blanks and line ends.
std::string without_blanks(std::string_view text);
/// Items of a list between colons, without blanks around them.
std::vector<std::string_view> colon_list(std::string_view text);

}  // namespace pen::dkim
