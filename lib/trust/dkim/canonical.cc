#include "lib/trust/dkim/canonical.h"

#include <ranges>

#include "lib/base/text.h"

namespace pen::dkim {
namespace {

std::optional<Form> form_of(std::string_view word) {
  if (iequals(word, "simple")) return Form::simple;
  if (iequals(word, "relaxed")) return Form::relaxed;
  return std::nullopt;
}

std::string_view word_of(Form form) { return form == Form::simple ? "simple" : "relaxed"; }

bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

std::optional<Canonicalization> Canonicalization::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto header = form_of(trim(text.substr(0, slash)));
  const auto body = slash == std::string_view::npos ? Form::simple : form_of(trim(text.substr(slash + 1)));
  if (!header || !body) return std::nullopt;
  return Canonicalization{*header, *body};
}

std::string Canonicalization::text() const { return std::string(word_of(header)) + "/" + std::string(word_of(body)); }

std::vector<FieldView> split_fields(std::string_view header, std::size_t most) {
  std::vector<FieldView> fields;
  while (!header.empty() && fields.size() < most) {
    std::size_t end = 0, next = 0;
    do {
      end = header.find("\r\n", next);
      if (end == std::string_view::npos) end = header.size();
      next = std::min(end + 2, header.size());
    } while (next < header.size() && is_blank(header[next]));
    const auto whole = header.substr(0, end);
    const auto colon = whole.find(':');
    std::string_view name = whole.substr(0, colon == std::string_view::npos ? 0 : colon);
    while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
    bool good = !name.empty();
    for (const char c : name) good = good && c > ' ' && c < '\x7f';
    if (!good) break;
    fields.push_back({name, whole});
    header.remove_prefix(next);
  }
  return fields;
}

FieldIndex::FieldIndex(std::span<const FieldView> fields) {
  for (const auto& field : fields | std::views::reverse) by_name_[to_lower(field.name)].push_back(field.whole);
}

void FieldIndex::append(Form form, std::span<const std::string> names, const char* but, std::string& out) const {
  std::map<std::string, std::size_t> taken;
  for (const auto& name : names) {
    const std::string lower = to_lower(name);
    ++steps_;
    const auto found = by_name_.find(lower);
    if (found == by_name_.end()) continue;
    for (std::size_t& at = taken[lower]; at < found->second.size();) {
      ++steps_;
      const std::string_view whole = found->second[at++];
      if (whole.data() == but) continue;
      append_canonical(form, whole, out);
      out += "\r\n";
      break;
    }
  }
}

void append_canonical(Form form, std::string_view whole, std::string& out) {
  if (form == Form::simple) {
    out += whole;
    return;
  }
  const auto colon = whole.find(':');
  std::string_view name = whole.substr(0, colon);
  while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
  for (const char c : name) out += ascii_lower(c);
  out += ':';
  if (colon == std::string_view::npos) return;
  std::string_view value = whole.substr(colon + 1);
  bool blank = false, some = false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c == '\r' && value.substr(i).starts_with("\r\n")) {
      ++i;  // unfolded; a blank follows
      continue;
    }
    if (is_blank(c)) {
      blank = true;
      continue;
    }
    if (blank && some) out += ' ';
    blank = false;
    some = true;
    out += c;
  }
}

}  // namespace pen::dkim
