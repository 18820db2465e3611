#include "lib/map/status_filter.h"

#include <fmt/format.h>

#include "lib/base/text.h"

namespace pen::map {
namespace {

/// RFC 3463 section 2: class, subject and detail, of at most three digits each.
bool status_code(std::string_view word) {
  if (word.size() < 5 || word[1] != '.' || (word[0] != '2' && word[0] != '4' && word[0] != '5')) return false;
  const auto dot = word.find('.', 2);
  if (dot == std::string_view::npos) return false;
  const auto number = [](std::string_view text) { return text.size() <= 3 && parse_unsigned(text).has_value(); };
  return number(word.substr(2, dot - 2)) && number(word.substr(dot + 1));
}

}  // namespace

Result<StatusFilter> StatusFilter::open(const std::vector<std::string>& tables, const OpenOptions& options) {
  StatusFilter filter;
  auto maps = MapList::open(join(tables), options);
  if (!maps) return fail(std::move(maps).error().within("delivery_status_filter"));
  filter.maps_ = *std::move(maps);
  return filter;
}

std::string StatusFilter::apply(mail::DeliveryStatus& status, bool may_give_up) const {
  if (maps_.empty()) return {};
  const auto found = maps_.lookup(status.dsn + " " + status.text);
  if (!found) return "delivery_status_filter: " + found.error().message();
  if (!*found) return {};
  const std::string_view answer = trim(**found);
  const auto space = answer.find_first_of(" \t");
  const auto code = answer.substr(0, space);
  const auto text = space == std::string_view::npos ? std::string_view() : trim(answer.substr(space));
  const bool trouble = status.action == mail::Action::deferred || status.action == mail::Action::failed;
  if (!status_code(code) || text.empty() || (code[0] != '2') != trouble)
    return fmt::format("delivery_status_filter: \"{}\" cannot stand for \"{} {}\"", printable(answer, 200), status.dsn,
                       printable(status.text, 200));
  if (!may_give_up && status.action == mail::Action::deferred && code[0] == '5') return {};
  status.dsn = code;
  status.text = text;
  if (trouble) status.action = code[0] == '5' ? mail::Action::failed : mail::Action::deferred;
  return {};
}

}  // namespace pen::map
