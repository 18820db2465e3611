#pragma once
/// Asks the key process (lib/suite/ipc/keys.h): for the list of keys, for signatures, for the certificates of a name.
///
/// Use:     auto client = std::make_shared<Client>(loop, {.path = …, .conversation = ipc::keys::kServerName, …});
///          client->on_list = [] { … client->held() … };      // after each list, also after a reload of the process
///          client->start();   co_await client->listed(until);
///          client->sign(id, scheme, digest, [] { return wanted; }, [](const Done* done) { … });
/// Lost:    what was asked is asked again, as long as somebody wants it; after kPatience without a process the answer
///          is nullptr. Then available() is false as well.
/// Bounds:  questions: what the callers have under way.
/// Thread:  the loop's.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/suite/ipc/keys.h"
#include "lib/suite/ipc/link.h"

namespace pen::keys {

class Client {
 public:
  static constexpr seconds kPatience{20};
  using Held = ipc::keys::Held;
  using List = std::map<std::string, Held, std::less<>>;

  struct Options {
    std::string path;
    std::string_view conversation;  // a constant of lib/suite/ipc/keys.h
    std::string meanwhile = {};     // what holds without the process, for `report`
    std::function<void(const std::string& line)> report = {};
  };
  Client(async::Loop& loop, Options options);

  void start() { link_.start(); }
  std::function<void()> on_list = {};
  const List& held() const { return held_; }
  bool has_list() const { return have_list_; }
  bool available() const;
  bool connected() const { return link_.connected(); }
  std::uint64_t asked() const { return asked_; }
  std::size_t under_way() const { return questions_.size(); }
  /// Waits until there is a list; false: none came in time.
  async::Task<bool> listed(async::Until until);
  /// Asks for the list again, and waits for it, kPatience at most.
  async::Task<bool> renew(async::Until until);
  /// The list is that of the process which is asked now. Else that one is gone, and the next may hold other keys.
  bool current() const { return connected() && list_request_ == 0; }
  void ask_for_list();

  using Wanted = std::function<bool()>;
  using TakeDone = std::move_only_function<void(const ipc::keys::Done* done)>;
  using TakeList = std::move_only_function<void(const ipc::keys::Listed* list)>;
  void sign(std::string key, ipc::keys::Scheme scheme, std::string data, Wanted wanted, TakeDone take);
  void find(std::string maps, std::string name, Wanted wanted, TakeList take);

 private:
  using Link = ipc::Link<ipc::keys::FromKeys, ipc::keys::ToKeys, Client>;
  friend Link;
  struct Question {
    std::string key, data;  // with find() the tables and the name
    ipc::keys::Scheme scheme = {};
    Wanted wanted;
    TakeDone take_done;
    TakeList take_list;
    SteadyTime since;
  };
  void ask(Question question);
  void send(std::uint64_t request, const Question& question);
  static void give_up(Question& question);
  void take_page(ipc::keys::Listed& page);
  void on_connected();
  void on_message(Link::Channel::Received& received);
  void on_lost(const Error& why);
  void on_refused(const Error& why);

  async::Loop& loop_;
  List held_, pages_;
  bool have_list_ = false;
  async::Event fresh_;              // a list has come since it was last asked for
  std::uint64_t list_request_ = 0;  // the page that is awaited; 0: none
  std::map<std::uint64_t, Question> questions_;
  std::uint64_t next_ = 1, asked_ = 0;
  SteadyTime gone_since_;
  Link link_;
};

/// The names of the chains in these files that the list has, in order. Where none is held: the one name under which
/// the list may say why.
std::vector<std::string> chains_among(const Client::List& list, const std::vector<std::string>& files);

}  // namespace pen::keys
