#include "lib/map/key_template.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/map/map.h"

namespace pen::map {
namespace {

constexpr std::string_view kOfValue = "sud";
constexpr std::string_view kOfBoth = "sudSUD";

bool is_label(char part) { return part >= '1' && part <= '9'; }

void add_need(KeyNeeds& needs, char part) {
  if (part == 'u' || part == 'U') needs.user = true;
  if (part == 'd' || part == 'D') needs.domain = true;
  if (is_label(part)) {
    needs.domain = true;
    needs.labels = std::max(needs.labels, part - '0');
  }
}

std::string_view part_of(const KeyParts& parts, char part) {
  switch (ascii_lower(part)) {
    case 's':
      return parts.whole;
    case 'u':
      return parts.qualified ? parts.user : parts.whole;
    case 'd':
      return parts.domain;
    default:
      return parts.label(part - '0').value_or(std::string_view());
  }
}

}  // namespace

KeyParts::KeyParts(std::string_view text) : whole(text) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos) return;
  qualified = true;
  user = text.substr(0, at);
  domain = text.substr(at + 1);
}

std::optional<std::string_view> KeyParts::label(int n) const {
  // As Postfix counts: dots side by side, or at an end, hold no label between them.
  std::string_view rest = domain;
  while (!rest.empty()) {
    const auto dot = rest.rfind('.');
    const auto label = dot == std::string_view::npos ? rest : rest.substr(dot + 1);
    if (!label.empty() && --n == 0) return label;
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(0, dot);
  }
  return std::nullopt;
}

bool KeyNeeds::met_by(const KeyParts& parts) const {
  if (user && parts.qualified && parts.user.empty()) return false;
  if (domain && parts.domain.empty()) return false;
  return labels == 0 || parts.label(labels);
}

KeyNeeds& KeyNeeds::operator|=(const KeyNeeds& more) {
  user = user || more.user;
  domain = domain || more.domain;
  labels = std::max(labels, more.labels);
  return *this;
}

Result<KeyTemplate> KeyTemplate::parse(std::string_view text, std::string_view parameter) {
  KeyTemplate out;
  Piece piece;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      piece.literal += text[i];
      continue;
    }
    const char next = ++i < text.size() ? text[i] : '\0';
    if (next == '%') {
      piece.literal += '%';
      continue;
    }
    if (!is_label(next) && (next == '\0' || kOfBoth.find(next) == std::string_view::npos))
      return fail(MapError::syntax, std::string(parameter) + ": %" + printable({&next, next == '\0' ? 0U : 1U}) +
                                        " means nothing; %% stands for a percent sign");
    piece.part = next;
    out.pieces_.push_back(std::exchange(piece, {}));
  }
  if (!piece.literal.empty()) out.pieces_.push_back(std::move(piece));
  return out;
}

bool KeyTemplate::has_parts() const {
  return std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.part != '\0'; });
}
KeyNeeds KeyTemplate::needs_of_query() const {
  KeyNeeds needs;
  for (const Piece& piece : pieces_) add_need(needs, piece.part);
  return needs;
}
KeyNeeds KeyTemplate::result_needs_of_key() const {
  KeyNeeds needs;
  for (const Piece& piece : pieces_)
    if (kOfValue.find(piece.part) == std::string_view::npos) add_need(needs, piece.part);
  return needs;
}
KeyNeeds KeyTemplate::result_needs_of_value() const {
  KeyNeeds needs;
  for (const Piece& piece : pieces_)
    if (kOfValue.find(piece.part) != std::string_view::npos) add_need(needs, piece.part);
  return needs;
}

std::optional<std::string> KeyTemplate::expand(const KeyParts& key, const Quote& quote) const {
  if (!needs_of_query().met_by(key)) return std::nullopt;
  std::string out;
  for (const Piece& piece : pieces_) {
    out += piece.literal;
    if (piece.part != '\0' && !quote(part_of(key, piece.part), out)) return std::nullopt;
  }
  return out;
}

std::optional<std::string> KeyTemplate::expand_result(const KeyParts& value, const KeyParts& key) const {
  if (!result_needs_of_value().met_by(value) || !result_needs_of_key().met_by(key)) return std::nullopt;
  std::string out;
  for (const Piece& piece : pieces_) {
    out += piece.literal;
    if (piece.part == '\0') continue;
    out += part_of(kOfValue.find(piece.part) == std::string_view::npos ? key : value, piece.part);
  }
  return out;
}

}  // namespace pen::map
