#include "tools/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <utility>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/queue/views/limits.h"
#include "tools/destination_listing.h"

namespace pen::tools {

using ipc::destinations::Class;
using ipc::queue::Place;
using views::Seen;

double rate(const TopSnapshot& before, const TopSnapshot& now, const std::string& count) {
  const double time = std::chrono::duration<double>(now.at - before.at).count();
  const auto a = before.counts.find(count), b = now.counts.find(count);
  // A program that was started again counts from the beginning.
  if (time <= 0 || a == before.counts.end() || b == now.counts.end() || b->second < a->second) return 0;
  return static_cast<double>(b->second - a->second) / time;
}

double mean(const TopSnapshot& before, const TopSnapshot& now, const std::string& sum, const std::string& events) {
  const auto grown = [&](const std::string& name) -> std::uint64_t {
    const auto a = before.counts.find(name), b = now.counts.find(name);
    if (a == before.counts.end() || b == now.counts.end() || b->second < a->second) return 0;
    return b->second - a->second;
  };
  const std::uint64_t n = grown(events);
  return n == 0 ? -1 : static_cast<double>(grown(sum)) / 1e6 / static_cast<double>(n);
}

std::string plain_text(const TopLine& line) {
  std::string out;
  for (const TopSpan& span : line) out += span.text;
  return out;
}

namespace {

constexpr std::size_t kLeastWidth = 40;
constexpr std::size_t kPage = 10;

std::string short_number(std::uint64_t n) {
  if (n < 100'000) return std::to_string(n);
  const auto d = static_cast<double>(n);
  return n < 10'000'000 ? fmt::format("{:.0f}k", d / 1e3) : fmt::format("{:.1f}M", d / 1e6);
}

std::string short_bytes(std::uint64_t n) {
  const auto d = static_cast<double>(n);
  if (n < 10'000) return fmt::format("{}B", n);
  if (n < 10'000'000) return fmt::format("{:.0f}K", d / 1024);
  if (n < 10'000'000'000) return fmt::format("{:.0f}M", d / 1048576);
  return fmt::format("{:.1f}G", d / 1073741824);
}

std::string short_time(double time) {
  if (time < 0) return "-";
  if (time < 0.0095) return fmt::format("{:.1f}ms", time * 1e3);
  if (time < 1) return fmt::format("{:.0f}ms", time * 1e3);
  if (time < 120) return fmt::format("{:.0f}s", time);
  if (time < 7200) return fmt::format("{:.0f}m", time / 60);
  if (time < 172'800) return fmt::format("{:.1f}h", time / 3600);
  return fmt::format("{:.1f}d", time / 86'400);
}

std::string age(WallTime then, WallTime now) {
  return then == WallTime{} ? "-" : short_time(std::max(0.0, std::chrono::duration<double>(now - then).count()));
}

std::string until(WallTime then, WallTime now) {
  return then <= now ? "now" : "in " + short_time(std::chrono::duration<double>(then - now).count());
}

std::string per_second(double rate) {
  return rate < 10 ? fmt::format("{:.1f}/s", rate) : fmt::format("{:.0f}/s", rate);
}

bool contains(std::string_view text, const std::string& part) {
  return part.empty() || to_lower(text).find(to_lower(part)) != std::string::npos;
}

TopStyle style_of(Class c) {
  switch (c) {
    case Class::active:
    case Class::idle:
      return TopStyle::good;
    case Class::retry:
      return TopStyle::warn;
    case Class::failing:
    case Class::suspended:
      return TopStyle::bad;
    case Class::closed:
    case Class::unused:
      break;
  }
  return TopStyle::plain;
}

/// Why it waits, in a few words; empty: it does not.
std::string why(const Seen& d) {
  if (!d.entry.suspended.empty()) return d.entry.suspended;
  if (d.entry.in_line) return "waits for a session of class " + d.entry.session_class;
  if (d.entry.paused.count() > 0)
    return "rate delay, next in " + short_time(static_cast<double>(d.entry.paused.count()) / 1000);
  if (d.facts.failures > 0)
    return d.facts.reason.empty() ? std::string(views::trouble_word(d.facts.trouble)) : d.facts.reason;
  if (std::string limits = views::limits_why(d.entry.limits, d.entry.quotas); !limits.empty()) return limits;
  if (d.entry.waiting > 0 && d.entry.limit > 0 && d.entry.connections >= d.entry.limit)
    return "all connections are in use";
  return {};
}

class Drawing {
 public:
  Drawing(const TopSnapshot& before, const TopSnapshot& now, const TopState& state, TopSize size)
      : before_(before), now_(now), state_(state), width_(std::max(size.width, kLeastWidth)), height_(size.height) {}

  std::vector<TopLine> lines() {
    if (state_.screen == TopState::Screen::help) {
      help();
    } else if (state_.screen == TopState::Screen::destination) {
      destination();
    } else if (state_.screen == TopState::Screen::message) {
      text(state_.detail.empty() ? "asking for " + state_.subject + " ...\n" : state_.detail);
    } else {
      head();
      queue();
      classes();
      if (state_.screen == TopState::Screen::messages)
        messages();
      else
        destinations();
    }
    if (height_ > 0) {
      if (lines_.size() >= height_) lines_.resize(height_ - 1);
      keys();
    }
    for (TopLine& line : lines_) cut(line);
    return std::move(lines_);
  }

 private:
  void add(TopLine line) { lines_.push_back(std::move(line)); }
  void add(TopStyle style, std::string text) { add({{style, std::move(text)}}); }
  double rate_of(const char* name) const { return rate(before_, now_, name); }
  std::uint64_t count_of(const char* name) const {
    const auto at = now_.counts.find(name);
    return at == now_.counts.end() ? 0 : at->second;
  }
  bool low() const { return height_ > 0 && height_ < 20; }

  void cut(TopLine& line) const {
    std::size_t left = width_;
    for (TopSpan& span : line) {
      if (span.text.size() > left) span.text.resize(left);
      left -= span.text.size();
    }
  }

  /// Items one after the other, in as many lines as they need.
  void flow(const std::vector<TopSpan>& items) {
    TopLine line;
    std::size_t used = 0;
    for (const TopSpan& item : items) {
      if (used > 0 && used + 2 + item.text.size() > width_) {
        add(std::exchange(line, {}));
        used = 0;
      }
      if (used > 0) line.push_back({TopStyle::plain, "  "});
      used += item.text.size() + (used > 0 ? 2 : 0);
      line.push_back(item);
    }
    if (!line.empty()) add(std::move(line));
  }

  void head() {
    TopLine line = {{TopStyle::bold, "penstock"}, {TopStyle::plain, "  " + local_text(now_.at)}};
    if (!now_.problem.empty())
      line.push_back({TopStyle::bad, "  no answer: " + printable(now_.problem, 200)});
    else if (!now_.accepting)
      line.push_back({TopStyle::bad, "  takes no mail: no space"});
    add(std::move(line));
    const double refused = rate_of("smtpd_rejects"), deferred = rate_of("delivery_attempts.deferred");
    const double bounced = rate_of("deliveries.bounced") + rate_of("deliveries.expired");
    std::vector<TopSpan> rates = {{TopStyle::plain, "in " + per_second(rate_of("accepted"))},
                                  {TopStyle::plain, "out " + per_second(rate_of("finished"))}};
    if (now_.pages_problem.empty()) {
      rates.push_back({TopStyle::plain, "delivered " + per_second(rate_of("deliveries.delivered"))});
      rates.push_back({deferred > 0 ? TopStyle::warn : TopStyle::plain, "deferred " + per_second(deferred)});
      rates.push_back({bounced > 0 ? TopStyle::warn : TopStyle::plain, "bounced " + per_second(bounced)});
      rates.push_back({refused > 0 ? TopStyle::warn : TopStyle::plain, "refused " + per_second(refused)});
    }
    flow(rates);
    std::vector<TopSpan> states;
    if (now_.pages_problem.empty()) {
      const std::uint64_t began = count_of("smtpd_connections"), ended = count_of("smtpd_disconnections");
      states.push_back({TopStyle::plain, fmt::format("sessions in {} (+{})", began > ended ? began - ended : 0,
                                                     per_second(rate_of("smtpd_connections")))});
    }
    states.push_back({TopStyle::plain, fmt::format("out {}", count_of("connections"))});
    states.push_back({TopStyle::plain, fmt::format("jobs {}, {} in hand", count_of("jobs"), count_of("jobs_in_hand"))});
    if (count_of("routing") > 0) states.push_back({TopStyle::warn, fmt::format("routing {}", count_of("routing"))});
    const double sync = mean(before_, now_, "queue_sync.sum", "queue_syncs");
    states.push_back({sync > 0.1 ? TopStyle::warn : TopStyle::plain,
                      fmt::format("sync {} {}", short_time(sync), per_second(rate_of("syncs")))});
    flow(states);
    if (!now_.pages_problem.empty()) add(TopStyle::dim, "no counters: " + printable(now_.pages_problem, 200));
  }

  void queue() {
    const TopSurvey& survey = now_.survey;
    if (survey.looked == WallTime{}) return add(TopStyle::dim, "queue: being looked through ...");
    if (low()) {
      std::vector<TopSpan> items;
      for (std::size_t i = 0; i < kTopPlaces; ++i) {
        const TopQueue& q = survey.places[i];
        if (q.messages == 0) continue;
        items.push_back({TopStyle::plain, fmt::format("{} {} ({})", ipc::queue::kPlaceNames[i],
                                                      short_number(q.messages), age(q.oldest, now_.at))});
      }
      if (items.empty()) items.push_back({TopStyle::plain, "queue empty"});
      return flow(items);
    }
    add(TopStyle::bold, fmt::format("{:<10} {:>9} {:>8} {:>8}  {}", "QUEUE", "MESSAGES", "SIZE", "OLDEST",
                                    survey.looked + seconds(5) < now_.at ? "(" + age(survey.looked, now_.at) + " ago)"
                                                                         : std::string()));
    for (std::size_t i = 0; i < kTopPlaces; ++i) {
      const TopQueue& q = survey.places[i];
      const auto place = static_cast<Place>(i);
      if (q.messages == 0 && (place == Place::incoming || place == Place::maildrop || place == Place::hold)) continue;
      add(place == Place::hold ? TopStyle::warn : TopStyle::plain,
          fmt::format("{:<10} {:>9} {:>8} {:>8}", ipc::queue::kPlaceNames[i], short_number(q.messages),
                      short_bytes(q.bytes), age(q.oldest, now_.at)));
    }
  }

  void classes() {
    if (now_.classes.empty()) return;
    if (low()) return;
    add(TopStyle::bold,
        fmt::format("{:<22} {:>6} {:>6} {:>7} {:>8}", "SESSION CLASS", "IN", "OUT", "LIMIT", "REFUSED"));
    constexpr std::size_t kMost = 8;
    for (std::size_t i = 0; i < std::min(now_.classes.size(), kMost); ++i) {
      const auto& c = now_.classes[i];
      const bool full = c.incoming + c.outgoing >= c.total;
      add(full ? TopStyle::warn : TopStyle::plain,
          fmt::format("{:<22} {:>6} {:>6} {:>7} {:>8}{}", printable(c.mask, 22), c.incoming, c.outgoing, c.total,
                      c.refused, c.outgoing_waits ? "  outgoing mail waits" : ""));
    }
    if (now_.classes.size() > kMost) add(TopStyle::dim, fmt::format("and {} more", now_.classes.size() - kMost));
  }

  std::string_view sort_word() const {
    switch (state_.sort) {
      case TopState::Sort::busiest:
        return "busiest first";
      case TopState::Sort::slowest:
        return "slowest first";
      case TopState::Sort::failures:
        return "failures first";
      case TopState::Sort::next_try:
        return "next try first";
      case TopState::Sort::name:
        return "by name";
    }
    return "";
  }

  /// Room for rows below what is there and the title, above the keys.
  std::size_t room() const {
    if (height_ == 0) return static_cast<std::size_t>(-1);
    return lines_.size() + 1 >= height_ ? 0 : height_ - lines_.size() - 1;
  }
  /// The first row that is shown, so that the cursor is among them.
  std::size_t first_row(std::size_t rows, std::size_t fit) const {
    const std::size_t cursor = rows == 0 ? 0 : std::min(state_.cursor, rows - 1);
    return height_ == 0 || cursor < fit ? 0 : cursor - fit + 1;
  }
  TopStyle row_style(std::size_t row, std::size_t rows, TopStyle own) const {
    return height_ > 0 && rows > 0 && row == std::min(state_.cursor, rows - 1) ? TopStyle::chosen : own;
  }
  std::string filter_text() const {
    return state_.filter.empty() ? std::string() : ", with \"" + printable(state_.filter) + "\"";
  }

  void destinations() {
    const auto rows = shown_destinations(now_, state_);
    const bool wide = width_ >= 100, narrow = width_ < 60;
    add(TopStyle::dim,
        fmt::format("{} of {} destinations, {}{}", rows.size(), now_.destinations_in_all, sort_word(), filter_text()));
    std::string title = fmt::format("{:<9} {:>4}", "STATE", "CONN");
    if (wide) title += fmt::format(" {:>5}", "LIMIT");
    title += fmt::format(" {:>5}", "JOBS");
    if (!narrow) title += fmt::format(" {:>4} {:>7} {:>8}", "FAIL", "TAKES", "NEXT TRY");
    add(TopStyle::bold, title + "  DESTINATION" + (narrow ? "" : "  WHY IT WAITS"));
    const std::size_t fit = room(), first = first_row(rows.size(), fit);
    for (std::size_t i = first; i < rows.size() && i - first < fit; ++i) {
      const Seen& d = *rows[i];
      std::string text = fmt::format("{:<9} {:>4}", views::class_word(d.entry.classification), d.entry.connections);
      if (wide) text += fmt::format(" {:>5}", d.entry.limit == 0 ? "-" : std::to_string(d.entry.limit));
      text += fmt::format(" {:>5}", short_number(d.entry.in_hand + d.entry.waiting));
      if (!narrow) {
        const double takes =
            d.facts.service_time.count() > 0 ? static_cast<double>(d.facts.service_time.count()) / 1e6 : -1;
        text += fmt::format(" {:>4} {:>7} {:>8}", d.facts.failures, short_time(takes),
                            d.facts.failures > 0 ? until(d.facts.next_retry, now_.at) : "-");
      }
      text += "  " + printable(d.entry.shown, 200);
      if (!narrow && !why(d).empty()) text += "  " + printable(why(d), 500);
      add(row_style(i, rows.size(), style_of(d.entry.classification)), std::move(text));
    }
  }

  void messages() {
    const auto rows = shown_messages(now_, state_);
    add(TopStyle::dim, fmt::format("the {} oldest messages{}", rows.size(), filter_text()));
    const bool narrow = width_ < 60;
    add(TopStyle::bold, fmt::format("{:<20} {:>7}", "QUEUE ID", "AGE") +
                            (narrow ? "" : fmt::format(" {:>7} {:>8} {:<8}", "SIZE", "NEXT TRY", "QUEUE")) +
                            "  SENDER > DOMAINS");
    const std::size_t fit = room(), first = first_row(rows.size(), fit);
    for (std::size_t i = first; i < rows.size() && i - first < fit; ++i) {
      const TopMessage& m = *rows[i];
      std::string text = fmt::format("{:<20} {:>7}", printable(m.queue_id, 40), age(m.arrival, now_.at));
      if (!narrow)
        text += fmt::format(" {:>7} {:>8} {:<8}", short_bytes(m.size),
                            m.place == Place::deferred ? until(m.next_try, now_.at) : "-", name_of(m.place));
      text += "  <" + printable(m.sender, 200) + "> > " + printable(m.domains, 200);
      add(row_style(i, rows.size(), m.place == Place::hold ? TopStyle::warn : TopStyle::plain), std::move(text));
    }
  }

  void text(const std::string& all) {
    std::size_t skip = state_.scroll;
    for (const auto& line : split_lines(all)) {
      // A long line goes on below.
      for (std::size_t at = 0; at == 0 || at < line.size(); at += width_) {
        if (skip > 0) {
          --skip;
          continue;
        }
        add(TopStyle::plain, line.substr(at, width_));
      }
    }
  }
  static std::vector<std::string> split_lines(const std::string& all) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < all.size();) {
      const auto end = std::min(all.find('\n', at), all.size());
      out.push_back(all.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }

  void destination() {
    const auto found = std::ranges::find(now_.destinations, state_.subject, [](const Seen& d) { return d.entry.key; });
    if (found == now_.destinations.end()) return text("it is not among the destinations any more\n");
    std::string all = show_text(*found);
    if (const std::string waits = why(*found); !waits.empty()) all += "\n  it waits: " + printable(waits, 1000) + "\n";
    const std::string name = found->entry.shown.substr(0, found->entry.shown.find('['));
    all += "\n  pendest suspend|resume|forget '" + printable(views::order_name(found->entry.shown), 200) +
           "'\n  pentrace out --host '" + printable(name, 200) + "'\n";
    text(all);
  }

  void help() {
    text(
        "b  busiest first             s  slowest first\n"
        "f  most failures first       t  next try first\n"
        "n  by name\n"
        "d  destinations              m  the oldest messages\n"
        "Up, Down, PgUp, PgDn, Home, End: choose a line\n"
        "Enter  everything about it   Esc, q: back\n"
        "/  show what contains a text; Enter keeps it, Esc drops it\n"
        "?  this page                 q  quit\n\n"
        "TAKES is how long a delivery takes there, as a moving mean. Rates are of the last interval.\n"
        "The queue by state is renewed seldom if it is long: its age stands beside it.\n");
  }

  void keys() {
    if (state_.typing) return add({{TopStyle::bold, "/" + printable(state_.filter) + "_"}});
    std::string text;
    switch (state_.screen) {
      case TopState::Screen::destinations:
        text = "?help q:quit m:messages Enter:more /filter b s f t n:sort";
        break;
      case TopState::Screen::messages:
        text = "?help q:quit d:destinations Enter:why /filter";
        break;
      default:
        text = "Esc:back Up/Down:scroll q:back";
    }
    add(TopStyle::dim, std::move(text));
  }

  const TopSnapshot& before_;
  const TopSnapshot& now_;
  const TopState& state_;
  std::size_t width_, height_;
  std::vector<TopLine> lines_;
};

}  // namespace

std::vector<const Seen*> shown_destinations(const TopSnapshot& now, const TopState& state) {
  std::vector<const Seen*> rows;
  for (const Seen& d : now.destinations)
    if (contains(d.entry.shown, state.filter) || contains(why(d), state.filter)) rows.push_back(&d);
  const auto jobs = [](const Seen* d) { return d->entry.in_hand + d->entry.waiting; };
  const auto due = [](const Seen* d) { return d->facts.failures > 0 ? d->facts.next_retry : WallTime::max(); };
  const auto compared = [&](const Seen* a, const Seen* b) -> std::weak_ordering {
    switch (state.sort) {
      case TopState::Sort::busiest:
        return std::pair(jobs(b), b->entry.connections) <=> std::pair(jobs(a), a->entry.connections);
      case TopState::Sort::slowest:
        return b->facts.service_time <=> a->facts.service_time;
      case TopState::Sort::failures:
        return b->facts.failures <=> a->facts.failures;
      case TopState::Sort::next_try:
        return due(a) <=> due(b);
      case TopState::Sort::name:
        break;
    }
    return std::weak_ordering::equivalent;
  };
  std::ranges::sort(rows, [&](const Seen* a, const Seen* b) {
    const auto order = compared(a, b);
    return std::is_eq(order) ? a->entry.shown < b->entry.shown : std::is_lt(order);
  });
  return rows;
}

std::vector<const TopMessage*> shown_messages(const TopSnapshot& now, const TopState& state) {
  std::vector<const TopMessage*> rows;
  for (const TopMessage& m : now.survey.oldest)
    if (contains(m.queue_id, state.filter) || contains(m.sender, state.filter) || contains(m.domains, state.filter))
      rows.push_back(&m);
  return rows;
}

namespace {

bool is_key(int key, TopKey k) { return key == static_cast<int>(k); }

void type_filter(TopState& state, int key) {
  constexpr std::size_t kMaxFilter = 100;
  if (is_key(key, TopKey::enter)) {
    state.typing = false;
  } else if (is_key(key, TopKey::escape)) {
    state.typing = false;
    state.filter.clear();
  } else if (is_key(key, TopKey::backspace)) {
    if (!state.filter.empty()) state.filter.pop_back();
  } else if (key >= 32 && key < 127 && state.filter.size() < kMaxFilter) {
    state.filter += static_cast<char>(key);
  }
  state.cursor = 0;
}

/// In a page of text.
void scroll_or_leave(TopState& state, int key) {
  using Screen = TopState::Screen;
  if (is_key(key, TopKey::escape) || key == 'q' || is_key(key, TopKey::backspace)) {
    state.screen = state.screen == Screen::message ? Screen::messages : Screen::destinations;
    state.scroll = 0;
  }
  if (is_key(key, TopKey::down)) ++state.scroll;
  if (is_key(key, TopKey::up) && state.scroll > 0) --state.scroll;
  if (is_key(key, TopKey::page_down)) state.scroll += kPage;
  if (is_key(key, TopKey::page_up)) state.scroll -= std::min(state.scroll, kPage);
  if (is_key(key, TopKey::home)) state.scroll = 0;
}

/// A letter of a list. False: it means nothing here.
bool obey_letter(TopState& state, int key) {
  using Screen = TopState::Screen;
  using Sort = TopState::Sort;
  constexpr std::pair<int, Sort> kSorts[] = {
      {'b', Sort::busiest}, {'s', Sort::slowest}, {'f', Sort::failures}, {'t', Sort::next_try}, {'n', Sort::name}};
  for (const auto& [letter, sort] : kSorts) {
    if (key != letter) continue;
    state.sort = sort;
    return true;
  }
  switch (key) {
    case 'q':
      state.quit = true;
      return true;
    case '?':
    case 'h':
      state.scroll = 0;
      state.screen = Screen::help;
      return true;
    case 'm':
    case 'd':
      state.screen = key == 'm' ? Screen::messages : Screen::destinations;
      state.cursor = state.scroll = 0;
      return true;
    case '/':
      state.typing = true;
      state.filter.clear();
      return true;
    default:
      return false;
  }
}

void move_cursor(std::size_t& cursor, int key, std::size_t rows) {
  const std::size_t last = rows == 0 ? 0 : rows - 1;
  cursor = std::min(cursor, last);
  if (is_key(key, TopKey::down)) cursor = std::min(cursor + 1, last);
  if (is_key(key, TopKey::up) && cursor > 0) --cursor;
  if (is_key(key, TopKey::page_down)) cursor = std::min(cursor + kPage, last);
  if (is_key(key, TopKey::page_up)) cursor -= std::min(cursor, kPage);
  if (is_key(key, TopKey::home)) cursor = 0;
  if (is_key(key, TopKey::end)) cursor = last;
}

}  // namespace

void TopState::key(int key, const TopSnapshot& now) {
  if (typing) return type_filter(*this, key);
  if (screen != Screen::destinations && screen != Screen::messages) return scroll_or_leave(*this, key);
  if (obey_letter(*this, key)) return;
  const auto destinations = shown_destinations(now, *this);
  const auto messages = shown_messages(now, *this);
  const std::size_t rows = screen == Screen::messages ? messages.size() : destinations.size();
  move_cursor(cursor, key, rows);
  if (is_key(key, TopKey::escape)) filter.clear();
  if (!is_key(key, TopKey::enter) || rows == 0) return;
  scroll = 0;
  if (screen == Screen::messages) {
    subject = messages[cursor]->queue_id;
    detail.clear();
    wants_detail = true;
    screen = Screen::message;
  } else {
    subject = destinations[cursor]->entry.key;
    screen = Screen::destination;
  }
}

std::vector<TopLine> draw(const TopSnapshot& before, const TopSnapshot& now, const TopState& state, TopSize size) {
  return Drawing(before, now, state, size).lines();
}

}  // namespace pen::tools
