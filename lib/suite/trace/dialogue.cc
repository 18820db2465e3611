#include "lib/suite/trace/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"

namespace pen::trace {

using ipc::trace::Kind;
using mail::for_each_line;
using mail::Verb;

namespace {

using Side = mail::ShownDialogue::Side;

/// The address of "FROM:<a@b> SIZE=1", whatever its form.
std::string_view path_of(std::string_view args) {
  const auto colon = args.find(':');
  if (colon == std::string_view::npos) return {};
  args = trim(args.substr(colon + 1));
  if (!args.starts_with('<')) return args.substr(0, args.find_first_of(" \t"));
  return args.substr(1, args.find('>', 1) - 1);
}

/// Whether printable() would change nothing.
bool all_printable(std::string_view text) {
  if (text.size() < sizeof(std::uint64_t)) return std::ranges::all_of(text, [](char c) { return c >= 32 && c < 127; });
  // Eight at a time. The highest bit of a byte is set where it is below 32, is 127, or is above; a carry or borrow
  // touches others only where there is such a byte.
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  std::uint64_t outside = 0;
  const auto look = [&](std::size_t at) {
    std::uint64_t bytes;
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    outside |= ((bytes - 32 * kOnes) & ~bytes) | (bytes + kOnes) | bytes;
  };
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) look(at);
  look(text.size() - sizeof(std::uint64_t));
  return (outside & 0x80 * kOnes) == 0;
}

}  // namespace

Dialogue::Dialogue(Hub& hub, Way way, Begin begin, std::string session)
    : hub_(hub),
      way_(way),
      epoch_(hub.epoch()),
      id_(std::move(session)),
      shown_(way == Way::in ? Side::server : Side::client, begin) {
  meet_readers();
  if (begin == Begin::midway) mark("the session had begun before");
}

Dialogue::~Dialogue() {
  if (!ended_ && !stale()) end("end");  // a reader that came later has not seen it begin
  hub_.settle();
  hub_.give_room(kept_bytes_);
}

void Dialogue::meet_new_readers() {
  changes_ = hub_.changes();
  const auto& readers = hub_.readers();
  std::erase_if(follows_, [&](const Follow& f) {
    return std::ranges::none_of(readers, [&](const Hub::Reader* r) { return r == f.reader && r->number == f.number; });
  });
  for (Hub::Reader* reader : readers) {
    if (std::ranges::find(follows_, reader, &Follow::reader) != follows_.end()) continue;
    Follow f{.reader = reader, .number = reader->number};
    f.seen = lines_;
    begin_transaction(f);
    judge_peer(f);
    follows_.push_back(std::move(f));
  }
  judge_sight();
}

void Dialogue::begin_transaction(Follow& f) {
  f.domain = f.reader->filter.any_domain();
  f.recipient = f.reader->filter.any_recipient();
  f.queue_id = f.reader->filter.any_queue_id();
}

bool Dialogue::fits(const Follow& f) const {
  if (!f.client || !f.host) return false;
  if (!f.reader->filter.about_messages()) return true;
  return way_ == Way::out ? !f.jobs.empty() : f.domain && f.recipient && f.queue_id;
}

void Dialogue::judge_peer(Follow& f) const {
  const Filter& filter = f.reader->filter;
  f.client = filter.clients().fits(address_, name_);
  f.host = filter.hosts().fits(address_, name_) || (!greeted_as_.empty() && filter.hosts().fits({}, greeted_as_));
}

void Dialogue::judge_sight() {
  out_of_sight_ = named_ && std::ranges::none_of(follows_, [this](const Follow& f) {
                    return f.client && (way_ == Way::in || f.host);  // a client may still give another name in EHLO
                  });
  if (out_of_sight_)
    while (!kept_.empty()) forget_oldest();
  else if (std::exchange(missed_, false))
    shown_ = mail::ShownDialogue(shown_.side(), Begin::midway);
}

void Dialogue::peer(std::string_view address, std::string_view name) {
  meet_readers();
  address_ = address;
  name_ = name;
  named_ = named_ || !name.empty();
  for (Follow& f : follows_) judge_peer(f);
  judge_sight();
  catch_up();
}

void Dialogue::judge_queue_id(std::string_view id) {
  meet_readers();
  for (Follow& f : follows_) f.queue_id = f.queue_id || f.reader->filter.queue_id_fits(id);
  catch_up();
}

void Dialogue::judge_job(std::string_view id, std::string_view sender,
                         const std::vector<std::string_view>& recipients) {
  meet_readers();
  for (Follow& f : follows_) {
    const Filter& filter = f.reader->filter;
    if (!filter.about_messages()) continue;
    const auto one = [&](bool any, auto fit) { return any || std::ranges::any_of(recipients, fit); };
    const bool all = (filter.any_queue_id() || filter.queue_id_fits(id)) &&
                     (filter.domain_fits(sender) ||
                      one(filter.any_domain(), [&](std::string_view r) { return filter.domain_fits(r); })) &&
                     one(filter.any_recipient(), [&](std::string_view r) { return filter.recipient_fits(r); });
    if (all) f.jobs.emplace_back(id);
  }
  catch_up();
}

void Dialogue::job_ends(std::string_view id) {
  if (jobs_ > 0) --jobs_;
  if (hub_.everything()) return;
  meet_readers();
  for (Follow& f : follows_) {
    const auto at = std::ranges::find(f.jobs, id);
    if (at == f.jobs.end()) continue;
    f.jobs.erase(at);
    f.seen = lines_;
  }
}

void Dialogue::new_message() {
  while (!kept_.empty() && kept_.back().of_message) {
    const std::size_t size = kept_.back().size();
    kept_bytes_ -= size;
    hub_.give_room(size);
    kept_.pop_back();
  }
  lost_ = 0;
  in_message_ = true;
}

void Dialogue::learn(Verb verb, std::string_view text) {
  const auto args = [text] { return mail::split_command(text).args; };
  switch (verb) {
    case Verb::helo:
    case Verb::ehlo:
      greeted_as_ = args().substr(0, ipc::trace::kMaxWord);
      for (Follow& f : follows_) judge_peer(f);
      break;
    case Verb::mail:
      for (Follow& f : follows_) {
        if (fits(f)) f.seen = lines_;
        begin_transaction(f);
        f.domain = f.domain || f.reader->filter.domain_fits(path_of(args()));
      }
      new_message();
      break;
    case Verb::rcpt:
      if (hub_.everything()) return;
      for (Follow& f : follows_) {
        f.domain = f.domain || f.reader->filter.domain_fits(path_of(args()));
        f.recipient = f.recipient || f.reader->filter.recipient_fits(path_of(args()));
      }
      break;
    default:
      return;
  }
  catch_up();
}

void Dialogue::content(std::uint64_t octets, std::string_view id) {
  std::array<char, 64> text;  // 7 + 4 + 20 + 2 + 20 + 7
  char* at = text.data();
  const auto add = [&at](std::string_view part) { at += part.copy(at, part.size()); };
  add("content");
  if (!id.empty()) {
    add(" of ");
    add(id.substr(0, mail::kMaxQueueId));
  }
  add(", ");
  at = std::to_chars(at, text.data() + text.size(), octets).ptr;
  add(" octets");
  mark({text.data(), at});
}

void Dialogue::end(std::string_view text) {
  ended_ = true;
  say(Said::end, text);
}

void Dialogue::take(Said what, std::string_view text, WallTime time) {
  meet_readers();
  const Kind other = way_ == Way::in ? Kind::received : Kind::sent;  // the side that gives commands
  const Kind ours = way_ == Way::in ? Kind::sent : Kind::received;
  switch (what) {
    case Said::command:
      return for_each_line(text, [&](std::string_view one) {
        const std::string_view shown = shown_.command(one);
        if (way_ == Way::in) learn(shown_.verb(), shown);
        line(other, shown, time);
      });
    case Said::reply:
      return for_each_line(text, [&](std::string_view one) { line(ours, shown_.reply(one), time); });
    case Said::response:
      return line(other, shown_.response(), time);
    case Said::mark:
      return line(Kind::mark, text, time);
    case Said::end:
      text = fit_to_show(text);
      for (const Follow& f : follows_)
        if (f.told || fits(f)) send(f, time, Kind::end, text);
  }
}

void Dialogue::forget_oldest() {
  const Kept& oldest = kept_.front();
  const std::size_t size = oldest.size();
  if (oldest.of_message) ++lost_;
  kept_bytes_ -= size;
  hub_.give_room(size);
  kept_.pop_front();
}

std::string_view Dialogue::fit_to_show(std::string_view text) {
  if (text.size() <= kMaxLine && all_printable(text)) return text;
  fitted_ = printable(text, kMaxLine);
  return fitted_;
}

void Dialogue::send(const Follow& f, WallTime time, Kind kind, std::string_view text) {
  hub_.send(*f.reader, {.time = time, .session = id_, .kind = kind, .text = text});
}

void Dialogue::line(Kind kind, std::string_view text, WallTime time) {
  const std::uint64_t number = lines_++;
  if (hub_.everything()) {
    text = fit_to_show(text);
    for (Follow& f : follows_) {
      send(f, time, kind, text);
      f.seen = lines_;
      f.told = true;
    }
    return;
  }
  bool may_fit = false, ready = false;
  const auto prepare = [&] {
    if (!std::exchange(ready, true)) text = fit_to_show(text);
  };
  for (Follow& f : follows_) {
    if (!fits(f)) {
      may_fit = may_fit || f.client || !named_;
      continue;
    }
    prepare();
    send(f, time, kind, text);
    f.seen = lines_;
    f.told = true;
  }
  if (!may_fit) return;
  prepare();
  keep({number, in_message_, time, kind, std::string(text)});
}

void Dialogue::keep(Kept one) {
  const std::size_t size = one.size();
  while (!kept_.empty() && (kept_.size() >= kKeptLines || kept_bytes_ + size > kKeptBytes)) forget_oldest();
  if (size > kKeptBytes || !hub_.take_room(size)) {
    ++lost_;
    return;
  }
  kept_bytes_ += size;
  kept_.push_back(std::move(one));
}

void Dialogue::catch_up() {
  for (Follow& f : follows_) {
    if (f.seen == lines_ || !fits(f)) continue;
    if (lost_ > 0) send(f, hub_.now(), Kind::mark, fmt::format("{} earlier lines were not kept", lost_));
    for (const Kept& kept : kept_) {
      if (kept.number < f.seen) continue;
      send(f, kept.time, kept.kind, kept.text);
      f.told = true;
    }
    f.seen = lines_;
  }
}

}  // namespace pen::trace
