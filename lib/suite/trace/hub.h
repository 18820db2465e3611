#pragma once
/// The readers that follow the dialogue of SMTP sessions in this process (pentrace; docs/trace.md).
///
/// Use:     auto hub = std::make_shared<Hub>(loop, Hub::Options{…}, context.draining());
///          a conversation kName: return Hub::serve(hub, std::move(opening));
///          a session: if (hub->on()) … a Dialogue (dialogue.h)
/// Cost:    while nobody reads: on(), a comparison.
///          With readers that want every session, a line is a copy of what was said (notes.h) until it is looked at
///          with others, and all lines of 100 ms leave in one call: a call and a wake-up for each turn of the loop were
///          most of what a trace cost.
/// Time:    lines of one turn of the loop have one time, that of the first.
/// Bounds:  so many readers; so many bytes wait for each. A reader that takes nothing gets nothing more until it has
///          taken what waits, and then the number of lines that were left out. Nobody waits for a reader.
/// End:     `draining` ends every trace: new sessions are another process's.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/trace.h"
#include "lib/suite/trace/filter.h"
#include "lib/suite/trace/notes.h"

namespace pen::trace {

using Channel = ipc::Channel<ipc::trace::ToProgram, ipc::trace::FromProgram>;

/// The frame of a line as encode_frame() makes it, with a third of the instructions: it is most of what a trace costs.
void append_frame(std::string& out, const ipc::trace::Line& line);

class Hub {
 public:
  struct Options {
    std::string service = {};  // in master.cf
    std::size_t readers = 8;   // trace_subscriber_limit
    std::size_t buffer = 0;    // bytes, trace_buffer_limit
  };
  Hub(async::Loop& loop, Options options, async::Cancel& draining);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  bool on() const { return !readers_.empty(); }
  /// Serves one reader; a Conversation of lib/suite/service.
  static async::Task<Result<void>> serve(std::shared_ptr<Hub> hub, ipc::Opening opening);

  // --- for Dialogue ---
  struct Reader {
    Reader(async::Loop& loop, Channel channel_in, const ipc::trace::Filter& words)
        : channel(std::move(channel_in)), filter(words), fell_behind(loop) {}
    Channel channel;
    Filter filter;
    std::uint64_t number = 0;   // of all that this Hub has had
    std::uint64_t dropped = 0;  // lines; not 0: nothing is sent until what waits is taken
    std::string gathered;       // frames, for the channel
    async::Event fell_behind;
  };
  const std::vector<Reader*>& readers() const { return readers_; }
  /// Another number: readers came or went.
  std::uint64_t changes() const { return changes_; }
  /// Another number: for a while nobody read, and lines went by unseen.
  std::uint64_t epoch() const { return epoch_; }
  /// Every reader wants every session: nothing is to be found out, nor kept.
  bool everything() const { return everything_; }
  /// Notes what was said, for Dialogue::take(), which then comes before the readers are others, and before a Dialogue
  /// ends that calls settle(). False: it must be taken now, and what was noted has been.
  bool note(Dialogue& whose, Said what, std::string_view text);
  void settle() {
    if (!notes_.empty()) take_notes();
  }
  void send(Reader& reader, const ipc::trace::Line& line);
  WallTime now() {
    if (const auto turn = loop_.turn(); turn_ != turn) {
      turn_ = turn;
      time_ = loop_.clock().wall_now();
    }
    return time_;
  }
  /// Room for lines that are kept because they may be wanted yet; of all sessions together as much as for one reader.
  bool take_room(std::size_t bytes);
  void give_room(std::size_t bytes) { kept_ -= bytes; }

 private:
  static async::Task<void> tell_gaps(Hub* hub, Reader* reader);
  static void pass_on(Reader& reader);
  void pass_on_all();
  void pass_on_later() {
    if (!timer_) start_timer();
  }
  void start_timer();
  void take_notes();
  void add(Reader& reader);
  void remove(Reader& reader);
  void readers_changed();

  async::Loop& loop_;
  Options options_;
  async::Cancel& draining_;
  std::vector<Reader*> readers_;
  bool everything_ = false;
  Notes notes_;
  std::uint64_t turn_ = 0;
  WallTime time_;  // of turn_
  std::uint64_t changes_ = 0, epoch_ = 0, numbers_ = 0;
  std::size_t kept_ = 0;
  async::Loop::TimerHandle timer_;  // while lines are gathered
};

}  // namespace pen::trace
