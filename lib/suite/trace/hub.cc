#include "lib/suite/trace/hub.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/bytes.h"
#include "lib/suite/trace/dialogue.h"

namespace pen::trace {

using namespace ipc::trace;

namespace {
constexpr seconds kFirstWord{30};
constexpr seconds kLastWord{1};     // for a reader to take the last message: a reload does not wait for it longer
constexpr std::size_t kFrame = 32;  // bytes of a line besides its texts, about
constexpr milliseconds kGather{100};
constexpr std::size_t kGathered = 64 * 1024;

char* put_varint(char* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}
char* put_text(char* at, std::string_view text) {
  at = put_varint(at, text.size());
  return at + text.copy(at, text.size());
}
}  // namespace

void append_frame(std::string& out, const Line& line) {
  constexpr std::size_t kIndex = ipc::detail::index_of<Line>(static_cast<const FromProgram*>(nullptr));
  static_assert(kIndex < 0x80);
  constexpr std::size_t kVarint = 10;
  const std::size_t had = out.size();
  const std::size_t most = ipc::kFrameHeader + 2 + 3 * kVarint + 1 + line.session.size() + line.text.size();
  out.resize_and_overwrite(had + most, [&](char* begin, std::size_t) {
    char* const content = begin + had + ipc::kFrameHeader;
    char* at = content;
    *at++ = 0;  // no descriptors
    *at++ = static_cast<char>(kIndex);
    const std::int64_t time = line.time.time_since_epoch().count();
    at = put_varint(at, (static_cast<std::uint64_t>(time) << 1) ^ static_cast<std::uint64_t>(time >> 63));
    at = put_text(at, line.session);
    at = put_varint(at, static_cast<std::uint64_t>(line.kind));
    at = put_text(at, line.text);
    store_le(reinterpret_cast<std::byte*>(content) - ipc::kFrameHeader, static_cast<std::uint32_t>(at - content));
    return static_cast<std::size_t>(at - begin);
  });
}

Hub::Hub(async::Loop& loop, Options options, async::Cancel& draining)
    : loop_(loop), options_(std::move(options)), draining_(draining) {}

bool Hub::take_room(std::size_t bytes) {
  if (kept_ + bytes > options_.buffer) return false;
  kept_ += bytes;
  return true;
}

void Hub::pass_on(Reader& reader) {
  if (reader.gathered.empty()) return;
  reader.channel.stream().compose() += reader.gathered;
  reader.gathered.clear();
}

void Hub::send(Reader& reader, const Line& line) {
  const std::size_t size = line.text.size() + line.session.size() + kFrame;
  if (reader.dropped > 0 || reader.channel.queued() + reader.gathered.size() + size > options_.buffer) {
    ++reader.dropped;
    reader.fell_behind.set();
    return;
  }
  append_frame(reader.gathered, line);
  if (reader.gathered.size() >= std::min(kGathered, options_.buffer / 4)) return pass_on(reader);
  pass_on_later();
}

bool Hub::note(Dialogue& whose, Said what, std::string_view text) {
  if (!everything_) return false;
  if (!notes_.fit(text)) {
    settle();
    if (!notes_.fit(text)) return false;
  }
  notes_.add({.whose = &whose, .time = now(), .what = what}, text);
  pass_on_later();
  return true;
}

void Hub::take_notes() {
  notes_.take([](const Notes::Note& note, std::string_view text) { note.whose->take(note.what, text, note.time); });
}

void Hub::start_timer() {
  timer_ = loop_.call_at(loop_.now() + kGather, [this] { pass_on_all(); });
}

void Hub::pass_on_all() {
  settle();
  timer_.reset();
  for (Reader* reader : readers_) pass_on(*reader);
}

void Hub::add(Reader& reader) {
  settle();
  reader.number = ++numbers_;
  if (readers_.empty()) ++epoch_;
  readers_.push_back(&reader);
  readers_changed();
}

void Hub::remove(Reader& reader) {
  settle();
  std::erase(readers_, &reader);
  if (readers_.empty()) notes_.release();
  readers_changed();
}

void Hub::readers_changed() {
  ++changes_;
  everything_ =
      !readers_.empty() && std::ranges::all_of(readers_, [](const Reader* r) { return r->filter.everything(); });
}

/// Reports how much is missing as soon as the reader has taken what came before the gap.
async::Task<void> Hub::tell_gaps(Hub* hub, Reader* reader) {
  const async::Until until{.cancel = &hub->draining_};
  for (;;) {
    if (!co_await reader->fell_behind.wait(until)) co_return;
    pass_on(*reader);
    if (!co_await reader->channel.flush(until)) co_return;
    reader->fell_behind.reset();
    (void)reader->channel.send(Dropped{reader->dropped});
    reader->dropped = 0;
  }
}

async::Task<Result<void>> Hub::serve(std::shared_ptr<Hub> hub, ipc::Opening opening) {
  Channel channel(std::move(opening));
  PEN_CO_TRY_ASSIGN(const auto first,
                    co_await channel.receive({.deadline = hub->loop_.now() + kFirstWord, .cancel = &hub->draining_}));
  const ipc::trace::Filter words = std::get<Follow>(first.message).filter;
  std::string no = Filter::problem(words);
  if (hub->readers_.size() >= hub->options_.readers)
    no = fmt::format("{} readers follow sessions of this process already (trace_subscriber_limit)",
                     hub->readers_.size());
  if (!no.empty()) {
    PEN_CO_TRY(channel.send(Refused{std::move(no)}));
    co_return co_await channel.flush({.deadline = hub->loop_.now() + kFirstWord, .cancel = &hub->draining_});
  }
  Reader reader(hub->loop_, std::move(channel), words);
  PEN_CO_TRY(
      reader.channel.send(Following{.service = hub->options_.service, .pid = static_cast<std::uint32_t>(::getpid())}));
  hub->add(reader);
  Result<void> ended;
  {
    async::Gate gate(hub->loop_);
    gate.spawn("gaps of a trace", tell_gaps(hub.get(), &reader));
    const auto more = co_await reader.channel.receive({.cancel = &hub->draining_});
    ended = more ? fail(ipc::IpcError::out_of_place, "trace: a second word") : fail(more.error());
  }
  hub->remove(reader);
  if (hub->draining_.raised()) {
    pass_on(reader);
    (void)reader.channel.send(Replaced{});
    (void)co_await reader.channel.flush({.deadline = hub->loop_.now() + kLastWord});
  }
  co_return ended;
}

}  // namespace pen::trace
