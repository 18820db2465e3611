#include "lib/signing/key_dates.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lib/base/text.h"

namespace pen::signing {
namespace {

/// Takes a number of just these digits.
std::optional<int> number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}
bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string_view error_module(KeyDateError) { return "dkim_key_dates"; }
std::string_view describe(KeyDateError e) {
  switch (e) {
    case KeyDateError::line:
      return "is no line NAME FROM UNTIL, with dates as 2026-12-01 or 2026-12-01T06:00Z, or -";
  }
  return "unknown";
}

std::optional<WallTime> parse_date(std::string_view text) {
  const auto year = number(text, 4);
  const bool first = take(text, '-');
  const auto month = number(text, 2);
  const bool second = take(text, '-');
  const auto day = number(text, 2);
  if (!year || !first || !month || !second || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const WallTime at{std::chrono::sys_days(date)};
  if (text.empty()) return at;
  if (!take(text, 'T')) return std::nullopt;
  const auto hour = number(text, 2);
  const bool third = take(text, ':');
  const auto minute = number(text, 2);
  std::optional<int> second_of = 0;
  if (take(text, ':')) second_of = number(text, 2);
  if (!hour || *hour > 23 || !third || !minute || *minute > 59 || !second_of || *second_of > 59 || text != "Z")
    return std::nullopt;
  return at + std::chrono::hours(*hour) + std::chrono::minutes(*minute) + seconds(*second_of);
}

std::string date_text(WallTime at) {
  const auto days = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{days};
  const std::chrono::hh_mm_ss time{std::chrono::floor<seconds>(at) - days};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count(), time.seconds().count());
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
