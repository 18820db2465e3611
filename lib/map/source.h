#pragma once
/// Source: answers for a table that this process does not hold itself: a server behind a socket, or a blocking call.
///
/// Use:     for the makers of such tables, whose lookup() is `return answer_from(source_, key);`, and for Asker.
/// Thread:  any; a source changes only its own list of idle connections, under a lock.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "lib/map/map.h"
#include "lib/map/timed_socket.h"

namespace pen::map {

class Source {
 public:
  virtual ~Source() = default;
  /// "type:name": sources of the same name give the same answers.
  const std::string& name() const { return name_; }
  /// Asks and waits in the calling thread.
  virtual Value ask_now(const std::string& key) const = 0;

 protected:
  explicit Source(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

/// A process that answers one request after the other on each connection. The subclass has the protocol, without I/O.
class ServerSource : public Source {
 public:
  using Address = helper::ServerAddress;
  static constexpr std::chrono::seconds kPatience{30};  // for each answer, connecting included
  static constexpr std::size_t kMaxReply = 100'000;
  static constexpr std::size_t kMaxIdle = 16;  // connections kept for the next question

  ServerSource(std::string name, Address address) : Source(std::move(name)), address_(std::move(address)) {}
  const Address& address() const { return address_; }

  /// Whether the server is asked for the key. false: it is not found.
  virtual Result<bool> asks_for(std::string_view key) const { return key.size() <= kMaxKey; }
  virtual std::string request(std::string_view key) const = 0;
  /// The size of the answer at the start of `bytes`. 0: the answer is incomplete; npos: malformed.
  virtual std::size_t whole(std::string_view bytes) const = 0;
  /// Reads a whole answer.
  virtual Value meaning(std::string_view answer) const = 0;
  /// The most bytes of a whole answer.
  virtual std::size_t most_bytes() const { return kMaxReply; }
  /// Whether `bytes` are one whole answer and nothing else; false: incomplete. Errors: syntax.
  Result<bool> complete(std::string_view bytes) const;

  Value ask_now(const std::string& key) const final;

 private:
  Fd take_idle() const;
  Result<std::string> talk(Fd fd, std::string_view request, SteadyTime deadline) const;

  Address address_;
  mutable std::mutex mutex_;
  mutable std::vector<Fd> idle_;
};

/// A look-up that somebody else does the waiting for.
///
/// Use:     for (;;) switch (steps->next()) { … wait as it says … case Steps::Next::done: return steps->take(); }
/// Thread:  one at a time; next() does not block.
class Steps {
 public:
  enum class Next {
    thread,      // in_thread() is to be called, in a thread that may wait
    descriptor,  // descriptor() is to become ready, or until() to come
    room,        // `wake` is to be called, or until() to come
    done,
  };
  struct Descriptor {
    int fd = -1;
    bool write = false;  // ready for output; otherwise for input
  };
  virtual ~Steps() = default;
  /// Goes on as far as nothing must be waited for.
  virtual Next next() = 0;
  virtual void in_thread() = 0;
  virtual Descriptor descriptor() const = 0;
  virtual SteadyTime until() const = 0;
  virtual Value take() = 0;
};

/// A server that keeps connections for all look-ups of this process. Its questions have a lane of their own, with
/// threads for what blocks, so that a server that hangs does not hold up questions to others.
class PooledSource : public Source {
 public:
  using Source::Source;
  /// Sources with the same lane ask the same server.
  virtual std::string lane() const = 0;
  virtual std::size_t lane_width() const = 0;  // connections, and so questions at the same time, and threads
  /// Whether the loop asks. Else every question blocks: a thread of the lane asks it whole, and takes the next one
  /// without the loop in between.
  virtual bool in_steps() const { return true; }
  /// Asks and waits. since: when the question was asked; the time limit counts from there.
  virtual Value ask(const std::string& key, SteadyTime since) const = 0;
  /// The same in steps. wake: may be called from any thread while the Steps live. nullptr: not found.
  virtual Result<std::shared_ptr<Steps>> begin(const std::string& key, SteadyTime since,
                                               std::function<void()> wake) const = 0;
  Value ask_now(const std::string& key) const final { return ask(key, system_clock().now()); }
};

/// The value under key: from the Asker whose work runs in this thread (or the error pending), else by waiting.
Value answer_from(const std::shared_ptr<const Source>& source, std::string_view key);

}  // namespace pen::map
