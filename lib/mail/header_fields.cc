#include "lib/mail/header_fields.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/header.h"

namespace pen::mail {
namespace {

/// One line without its CRLF; `rest` loses both.
std::string_view take_line(std::string_view& rest) {
  const auto end = rest.find("\r\n");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  return line;
}

/// With its colon and its CRLF.
std::size_t stored_size(const HeaderField& field) {
  return field.name.size() + (field.name.empty() ? 0 : 1) + field.value.size() + 2;
}

bool blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

HeaderFields::Parsed HeaderFields::parse(std::string_view content) {
  Parsed out;
  auto& fields = out.fields.fields_;
  std::string_view rest = content;
  while (!rest.empty()) {
    std::string_view after = rest;
    const std::string_view line = take_line(after);
    if (line.empty()) {
      out.separator = true;
      rest = after;
      break;
    }
    if (blank(line.front()) && !fields.empty()) {
      fields.back().value += "\r\n";
      fields.back().value += line;
    } else if (const std::size_t length = field_name_length(line); length > 0) {
      const std::size_t colon = line.find(':', length);
      fields.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))});
    } else if (fields.empty() && line.starts_with("From ")) {
      fields.push_back({{}, std::string(line), true});
    } else {
      break;
    }
    rest = after;
  }
  out.size = content.size() - rest.size();
  return out;
}

HeaderFields::Index& HeaderFields::by_name() {
  if (!index_) {
    index_.emplace();
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (!fields_[i].hidden) (*index_)[to_lower(trim(fields_[i].name))].push_back(static_cast<std::uint32_t>(i));
  }
  return *index_;
}

void HeaderFields::settle() const {
  if (removed_.empty()) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (removed_[i]) continue;
    if (kept != i) fields_[kept] = std::move(fields_[i]);
    ++kept;
  }
  fields_.resize(kept);
  removed_.clear();
  index_.reset();
}

void HeaderFields::hide_first() {
  settle();
  index_.reset();
  if (!fields_.empty()) fields_.front().hidden = true;
}

void HeaderFields::hide_trace(std::size_t front) {
  settle();
  index_.reset();
  HeaderField* trace = nullptr;
  std::size_t end = 0;
  for (HeaderField& field : fields_) {
    end += stored_size(field);
    if (end > front) break;
    if (iequals(trim(field.name), "Received")) trace = &field;
  }
  if (trace != nullptr) trace->hidden = true;
}

void HeaderFields::add(std::string_view name, std::string_view value) {
  if (index_) (*index_)[to_lower(trim(name))].push_back(static_cast<std::uint32_t>(fields_.size()));
  if (!removed_.empty()) removed_.push_back(false);
  fields_.push_back({std::string(name), std::string(value)});
}

void HeaderFields::insert(std::size_t index, std::string_view name, std::string_view value) {
  settle();
  if (index >= fields_.size()) return add(name, value);
  index_.reset();
  if (index == 0 && !fields_.front().name.empty()) fields_.front().hidden = false;
  fields_.insert(fields_.begin() + static_cast<std::ptrdiff_t>(index),
                 HeaderField{std::string(name), std::string(value)});
}

void HeaderFields::change(std::string_view name, std::size_t index, std::string_view value) {
  std::vector<std::uint32_t>& of_name = by_name()[to_lower(name)];
  const std::size_t wanted = std::max<std::size_t>(index, 1) - 1;
  if (wanted >= of_name.size()) {
    if (!value.empty()) add(name, value);
    return;
  }
  const auto found = of_name.begin() + static_cast<std::ptrdiff_t>(wanted);
  if (!value.empty()) {
    fields_[*found] = HeaderField{std::string(name), std::string(value)};
    return;
  }
  if (removed_.empty()) removed_.resize(fields_.size());
  removed_[*found] = true;
  of_name.erase(found);
}

std::string HeaderFields::text() const {
  settle();
  std::size_t size = 0;
  for (const auto& f : fields_) size += stored_size(f);
  std::string out;
  out.reserve(size);
  for (const auto& f : fields_) {
    out += f.name;
    if (!f.name.empty()) out += ':';
    out += f.value;
    out += "\r\n";
  }
  return out;
}

std::string header_value(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  bool line_begins = false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c == '\0' || (c == '\r' && i + 1 < value.size() && value[i + 1] == '\n')) continue;
    if (c == '\n') {
      line_begins = true;
      continue;
    }
    if (line_begins) {
      out += "\r\n";
      if (!blank(c)) out += '\t';
      line_begins = false;
    }
    out += c == '\r' ? ' ' : c;
  }
  return out;
}

bool is_field_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c > ' ' && c < 127 && c != ':'; });
}

}  // namespace pen::mail
