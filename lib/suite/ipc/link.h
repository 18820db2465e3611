#pragma once
/// Link: the client's half of a conversation that is kept for as long as the process runs, whatever becomes of the
/// server.
///
/// Use:     class Router {                                       // a User: four functions, private ones with a friend
///            void on_connected();                               // say what the server has to know first
///            void on_message(Link::Channel::Received& received);
///            void on_lost(const Error& why);                    // requests without an answer: ask again, or give up
///            void on_refused(const Error& why);                 // none could be had; want() to go on trying on demand
///            friend ipc::Link<FromRewrite, ToRewrite, Router>;
///            ipc::Link<FromRewrite, ToRewrite, Router> link_;   // link_(loop, {.path = …, .conversation = …}, *this)
///          };
///          link_.start();   if (link_.connected()) link_.channel().send(…); else link_.want();
/// Rules:   the User's functions come from the link's own task, never from within a call of the User's. In on_lost()
///          and on_refused() there is no connection any more. The User decides what a request without an answer gets.
/// Pace:    50 ms after a connection that had settled, else up to 1 s (lib/base/pace.h). master holds the sockets:
///          while a program is started again connecting works, and the server's hello is waited for.
/// Says:    to `report`, a line when no connection can be had, once until there was one, and a line when a connection
///          ends by more than the server's closing it: master logs its death.
/// Thread:  the loop's.
#include <functional>
#include <optional>
#include <string>

#include "lib/base/async/reconnecting.h"
#include "lib/suite/ipc/channel.h"

namespace pen::ipc {

struct LinkOptions {
  std::string path;               // of the socket
  std::string_view conversation;  // a constant
  // for the server's hello too. Long, for a program that is started for us reads its tables first
  milliseconds connect_timeout{60'000};
  // connects only when want() says that there is something to say; else at once, and again at once
  bool on_demand = false;
  std::string meanwhile = {};  // what holds without the server, for `report`: "clients have no rates"
  std::function<void(const std::string& line)> report = {};
};

/// The untyped half of Link.
class LinkBase {
 public:
  bool connected() const { return kept_.is_connected(); }
  void start() { kept_.start(std::string(options_.conversation)); }
  void want() {
    if (!connected()) kept_.want();
  }
  /// Hangs up in the next turn: the server does not do its part. on_lost() gets the reason.
  void give_up(Error why);
  /// Runs a task that uses the channel; it is destroyed when the connection ends.
  void beside(std::string name, async::Task<void> task) { beside_->spawn(std::move(name), std::move(task)); }
  std::uint64_t connections() const { return kept_.connections(); }
  const std::string& last_error() const { return kept_.last_error(); }

 protected:
  LinkBase(async::Loop& loop, LinkOptions options, async::Reconnecting::Attempt attempt,
           async::Reconnecting::Ended ended);
  void made() {
    kept_.connected();
    beside_.emplace(loop_);
  }
  void stop() {
    beside_.reset();
    kept_.stop();
  }
  /// What receive() said, or what give_up() did.
  Error reason(Error received);
  void say(const async::Reconnecting::End& end) const;

  async::Loop& loop_;
  LinkOptions options_;
  async::Cancel hung_up_;
  std::optional<Error> given_up_;
  std::optional<async::Gate> beside_;
  async::Reconnecting kept_;
};

/// In, Out: the variants of the two directions, as the User sees them.
template <class In, class Out, class User>
class Link : public LinkBase {
 public:
  using Channel = ipc::Channel<In, Out>;

  Link(async::Loop& loop, LinkOptions options, User& user)
      : LinkBase(
            loop, std::move(options), [this] { return attempt(); }, [this](const auto& end) { ended(end); }),
        user_(user) {}
  ~Link() { stop(); }  // the task waits on the channel

  /// While connected().
  Channel& channel() { return *channel_; }

 private:
  async::Task<Error> attempt() {
    auto channel = co_await connect_channel<In, Out>(loop_, options_.path, options_.conversation,
                                                     {.deadline = loop_.now() + options_.connect_timeout});
    if (!channel) co_return std::move(channel).error();
    channel_.emplace(*std::move(channel));
    made();
    user_.on_connected();
    for (;;) {
      auto received = co_await channel_->receive({.cancel = &hung_up_});
      if (!received) co_return reason(std::move(received).error());
      user_.on_message(*received);
    }
  }
  void ended(const async::Reconnecting::End& end) {
    beside_.reset();
    channel_.reset();
    say(end);
    if (end.lost)
      user_.on_lost(end.why);
    else
      user_.on_refused(end.why);
  }

  User& user_;
  std::optional<Channel> channel_;
};

}  // namespace pen::ipc
