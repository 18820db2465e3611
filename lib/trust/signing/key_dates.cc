#include "lib/trust/signing/key_dates.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lib/base/date.h"
#include "lib/base/text.h"

namespace pen::signing {
std::string_view error_module(KeyDateError) { return "dkim_key_dates"; }
std::string_view describe(KeyDateError e) {
  switch (e) {
    case KeyDateError::line:
      return "is no line NAME FROM UNTIL, with dates as 2026-12-01 or 2026-12-01T06:00Z, or -";
  }
  return "unknown";
}

Result<KeyDateTable> KeyDateTable::parse(std::string_view text, const std::string& file) {
  KeyDateTable out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const auto words = split(line);
    if (words.empty()) continue;
    const auto wrong = [&] { return fail(KeyDateError::line, fmt::format("{}:{}", file, number)); };
    if (words.size() != 3) return wrong();
    KeyDates one{.name = to_lower(words[0]), .from = {}, .until = {}, .line = number};
    if (words[1] != "-" && !(one.from = parse_date(words[1]))) return wrong();
    if (words[2] != "-" && !(one.until = parse_date(words[2]))) return wrong();
    if (one.from && one.until && *one.until <= *one.from) return wrong();
    out.all_.push_back(std::move(one));
  }
  std::ranges::sort(out.all_, {}, [](const KeyDates& one) { return std::tie(one.name, one.line); });
  // A key with two lines would sign by chance.
  const auto twice = std::ranges::adjacent_find(out.all_, {}, &KeyDates::name);
  if (twice != out.all_.end())
    return fail(KeyDateError::line, fmt::format("{}:{}: {} a second time", file, std::next(twice)->line, twice->name));
  return out;
}

const KeyDates* KeyDateTable::find(std::string_view name) const {
  const std::string key = to_lower(name);
  const auto at = std::ranges::lower_bound(all_, key, {}, &KeyDates::name);
  return at != all_.end() && at->name == key ? &*at : nullptr;
}

namespace {

/// Whether a key that is due may sign, by what is known of its record.
bool has_record(RecordSeen seen, WallTime from, WallTime now) {
  switch (seen) {
    case RecordSeen::there:
      return true;
    case RecordSeen::unknown:
      return now >= from + kSettled;
    case RecordSeen::unanswered:
    case RecordSeen::missing:
      return false;
  }
  return false;
}

/// Of first dates, the one whose key is most likely to be in DNS: the latest that has come, else the next one.
WallTime likelier(WallTime a, WallTime b, WallTime now) {
  if ((a <= now) != (b <= now)) return std::min(a, b);
  return a <= now ? std::max(a, b) : std::min(a, b);
}

}  // namespace

std::vector<std::size_t> keys_due(const std::vector<std::string>& names, const KeyDateTable& table,
                                  const std::function<RecordSeen(std::string_view name)>& record, WallTime now) {
  std::vector<std::size_t> due;
  std::optional<WallTime> last;   // the latest end of those that are over
  std::optional<WallTime> first;  // the first date that counts where nothing else signs
  bool lacking = false;           // a key is due that DNS does not have
  for (std::size_t i = 0; i < names.size(); ++i) {
    const KeyDates* dates = table.find(names[i]);
    if (dates == nullptr) {
      due.push_back(i);
      continue;
    }
    if (dates->until && *dates->until <= now) {
      last = std::max(last.value_or(*dates->until), *dates->until);
      continue;
    }
    if (dates->from) {
      const bool begun = *dates->from <= now;
      if (!begun || !has_record(record(names[i]), *dates->from, now)) {
        first = likelier(first.value_or(*dates->from), *dates->from, now);
        lacking = lacking || begun;
        continue;
      }
    }
    due.push_back(i);
  }
  const auto add = [&](auto has) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (const KeyDates* dates = table.find(names[i]); dates != nullptr && has(*dates)) due.push_back(i);
  };
  if ((due.empty() || lacking) && last) add([&](const KeyDates& dates) { return dates.until == last; });
  if (due.empty() && first) add([&](const KeyDates& dates) { return dates.from == first; });
  std::ranges::sort(due);
  return due;
}

}  // namespace pen::signing
