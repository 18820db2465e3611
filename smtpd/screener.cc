#include "smtpd/screener.h"

#include <fmt/format.h>

namespace pen::smtpd {

Screener::Screener(async::Loop& loop, std::shared_ptr<const Screening> screening, std::size_t places)
    : screening_(std::move(screening)), places_(loop, places) {}

void Screener::learn(const std::string& key, const triage::Record& record) {
  cache_.put(key, record);
  on_change();
  if (tell_others) tell_others(key, record);
}

Screener::Seat::Seat(Screener& screener, std::string key) : held_(new Held{&screener, std::move(key)}) {
  ++screener.seats_;
  ++screener.clients_[held_->key];
  if (screener.stress) held_->place.emplace(*screener.stress);
}

Screener::Seat::Held::~Held() {
  --screener->seats_;
  const auto at = screener->clients_.find(key);
  if (--at->second == 0) screener->clients_.erase(at);
}

std::size_t Screener::seats_of(const std::string& key) const {
  const auto at = clients_.find(key);
  return at == clients_.end() ? 0 : at->second;
}

Screener::Place::~Place() {
  if (screener_) screener_->places_.release();
}

async::Task<Result<Screener::Place>> Screener::enter(async::Until until) {
  if (places_.try_acquire()) co_return Place(*this);
  struct InLine {
    std::size_t& count;
    explicit InLine(std::size_t& all) : count(all) { ++count; }
    ~InLine() { --count; }
  };
  const InLine waits(waiting_);
  PEN_CO_TRY(co_await places_.acquire(until));
  co_return Place(*this);
}

void Screener::stop() {
  for (Link* at = tests_.next; tests_.linked() && at != &tests_; at = at->next)
    static_cast<Waiting*>(at)->cancel_.raise();
  if (stress) stress->wake();
}

std::string Screener::status_line() const {
  return fmt::format(
      "tests of clients: {} under way or refused, {} wait for a place; {} tested, {} passed, {} refused, "
      "{} were known; {} are kept",
      seats_, waiting_, counts.tested, counts.passed, counts.refused, counts.known, cache_.size());
}

std::string short_time(std::chrono::nanoseconds time) {
  const double passed = std::chrono::duration<double>(time).count();
  if (passed < 0.01) return "0";
  if (passed >= 10) return fmt::format("{:.0f}", passed);
  std::string text = passed >= 1 ? fmt::format("{:.1f}", passed) : fmt::format("{:.2f}", passed);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string escaped(std::string_view text) {
  constexpr std::size_t kMost = 100;
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\r':
        out += "\\r";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (byte >= 32 && byte < 127)
          out += c;
        else
          out += fmt::format("\\{:03o}", byte);
    }
    if (out.size() >= kMost) break;
  }
  return out.substr(0, kMost);
}

}  // namespace pen::smtpd
