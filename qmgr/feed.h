#pragma once
/// A conversation that qmgr keeps with another program: connects when there is something to say, and after the
/// program's death again when there is, more slowly each time.
///
/// Use:     derive; send by channel() while connected(), else keep what is to be said and want().
/// Thread:  the loop's.
#include <optional>
#include <string>

#include "lib/async/loop.h"
#include "lib/async/sync.h"
#include "lib/base/log.h"
#include "lib/ipc/channel.h"
#include "qmgr/manager.h"
#include "qmgr/pace.h"

namespace pen::qmgr {

/// In, Out: the variants of the two directions, as qmgr sees them.
template <class In, class Out>
class Feed {
 public:
  /// path: of the socket. conversation: a constant.
  Feed(async::Loop& loop, std::string path, std::string_view conversation)
      : loop_(loop), path_(std::move(path)), conversation_(conversation), wanted_(loop) {}
  virtual ~Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  void start(Manager& manager) {
    manager_ = &manager;
    loop_.spawn("feed " + std::string(conversation_), run());
  }
  bool connected() const { return channel_.has_value(); }

 protected:
  using Channel = ipc::Channel<In, Out>;
  /// There is something to say.
  void want() { wanted_.set(); }
  Channel& channel() { return *channel_; }
  Manager& manager() { return *manager_; }
  async::Loop& loop() { return loop_; }

  virtual void on_connected() = 0;
  /// No connection could be had; want() again if one is still needed.
  virtual void on_refused(const Error& why) = 0;
  virtual void on_message(In& message) = 0;
  virtual void on_lost() = 0;

 private:
  async::Task<void> run() {
    Pace pace;
    bool complained = false;
    for (;;) {
      static_cast<void>(co_await wanted_.wait());
      wanted_.reset();
      auto channel =
          co_await ipc::connect_channel<In, Out>(loop_, path_, conversation_, {.deadline = loop_.now() + seconds(60)});
      if (channel) {
        complained = false;
        channel_.emplace(*std::move(channel));
        wanted_.reset();
        on_connected();
        for (;;) {
          auto received = co_await channel_->receive();
          if (!received) {
            log::warning("{}: {}", path_, received.error().message());
            break;
          }
          pace.reset();
          on_message(received->message);
        }
        channel_.reset();
        on_lost();
      } else {
        if (!std::exchange(complained, true)) log::warning("connect to {}: {}", path_, channel.error().message());
        on_refused(channel.error());
      }
      static_cast<void>(co_await loop_.sleep(pace.next()));
    }
  }

  async::Loop& loop_;
  std::string path_;
  std::string_view conversation_;
  Manager* manager_ = nullptr;
  std::optional<Channel> channel_;
  async::Event wanted_;
};

}  // namespace pen::qmgr
