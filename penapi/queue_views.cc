// The queue, a page at a time.
#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/mail/queue_id.h"
#include "lib/queue/views/destinations.h"
#include "lib/queue/views/queue.h"
#include "penapi/selection.h"
#include "penapi/server.h"
#include "penapi/views.h"

namespace pen::api {

using async::Task;
using ipc::queue::Entry;
using nlohmann::ordered_json;

namespace {

constexpr std::uint64_t kDefaultPage = 100;
constexpr std::uint64_t kMaxPage = 1000;
constexpr std::uint64_t kMaxOffset = 100'000;
// A choice may fit few of millions: then the page is what was found in this time, and says so.
constexpr seconds kLooking{10};
constexpr std::size_t kPageBytes = 4 * 1024 * 1024;
constexpr std::size_t kShownRecipients = 100;  // of a message in a listing
constexpr std::size_t kMostRecipients = 1000;  // of one message

/// A message with at most `most` of its recipients, and how many there are.
ordered_json shown(Entry e, std::size_t most, std::uint64_t recipients) {
  if (e.recipients.size() > most) {
    e.recipients.resize(most);
    e.originals.resize(std::min(e.originals.size(), most));
  }
  if (e.bounced.size() > most) e.bounced.resize(most);
  auto j = views::to_json(e);
  j["recipients_total"] = recipients;
  if (e.next_try != WallTime{}) j["next_try"] = unix_seconds(e.next_try);
  return j;
}

/// A message that comes in several entries, of which only the first recipients are kept.
class Gathered {
 public:
  explicit Gathered(std::size_t most) : most_(most) {}
  /// True: it is whole.
  bool add(Entry& e) {
    recipients_ += e.recipients.size() + e.bounced.size();
    if (!whole_) {
      whole_ = std::move(e);
    } else {
      const auto take = [&](auto Entry::* list) {
        auto& to = (*whole_).*list;
        for (auto& x : e.*list)
          if (to.size() < most_) to.push_back(std::move(x));
      };
      take(&Entry::recipients);
      take(&Entry::originals);
      take(&Entry::bounced);
      whole_->more = e.more;
    }
    return !whole_->more;
  }
  ordered_json take() { return shown(*std::exchange(whole_, std::nullopt), most_, std::exchange(recipients_, 0)); }

 private:
  std::size_t most_;
  std::optional<Entry> whole_;
  std::uint64_t recipients_ = 0;
};

Response unanswered(const Error& error) {
  return failure(503, "the queue manager does not answer: " + error.message());
}

}  // namespace

Task<Response> list_queue(Server& server, Call call) {
  auto query = call.request.query;
  const auto number = [&](const char* name, std::uint64_t otherwise, std::uint64_t most) {
    return take_number(query, name, otherwise, most);
  };
  const auto limit = number("limit", kDefaultPage, kMaxPage);
  if (!limit) co_return failure(400, limit.error());
  const auto offset = number("offset", 0, kMaxOffset);
  if (!offset) co_return failure(400, offset.error());
  ipc::queue::List list;
  list.request = 1;
  if (auto wrong = take_filter(query, list.filter); !wrong.empty()) co_return failure(400, wrong);
  if (!query.empty()) co_return failure(400, "unknown parameter: " + query.begin()->first);

  ordered_json messages = ordered_json::array();
  std::uint64_t seen = 0;
  std::size_t bytes = 0;
  bool more = false;
  Gathered gathered(kShownRecipients);
  if (!co_await server.listings.acquire({.deadline = server.loop.now() + kLooking}))
    co_return failure(503, "others go through the queue all the time: try again");
  const auto done = co_await server.ask(
      list,
      [&](ipc::queue::FromQmgr& m) {
        auto* e = std::get_if<Entry>(&m);
        if (e == nullptr || !gathered.add(*e)) return true;
        auto j = gathered.take();
        if (seen++ < *offset) return true;
        if (messages.size() == *limit || bytes > kPageBytes) {
          more = true;
          return false;
        }
        bytes += views::text_of(j).size();
        messages.push_back(std::move(j));
        return true;
      },
      kLooking);
  server.listings.release();
  const bool incomplete = !done && done.error().is(async::WaitError::timed_out);
  if (!done && !incomplete) co_return unanswered(done.error());
  if (incomplete && messages.empty()) {  // it looks in vain, or it does not even look
    const Seen now = co_await server.survey.look();
    if (!now.qmgr_problem.empty()) co_return failure(503, "the queue manager does not answer: " + now.qmgr_problem);
  }
  if (done && *done && (*done)->outcome != ipc::queue::Outcome::ok) co_return failure(503, (*done)->text);
  ordered_json j;
  j["offset"] = *offset;
  j["limit"] = *limit;
  if (more) j["next_offset"] = *offset + messages.size();
  if (incomplete) j["incomplete"] = true;
  j["messages"] = std::move(messages);
  co_return Response{.body = views::text_of(j)};
}

Task<Response> show_message(Server& server, Call call) {
  if (!mail::is_queue_id(call.argument)) co_return failure(400, "not a queue id");
  ipc::queue::List list;
  list.request = 1;
  list.queue_ids = {call.argument};
  std::optional<ordered_json> found;
  Gathered gathered(kMostRecipients);
  const auto done = co_await server.ask(list, [&](ipc::queue::FromQmgr& m) {
    auto* e = std::get_if<Entry>(&m);
    if (e != nullptr && gathered.add(*e)) found = gathered.take();
    return true;
  });
  if (!done) co_return unanswered(done.error());
  if (!found) co_return failure(404, "no such message in the queue");
  co_return Response{.body = views::text_of(*found)};
}

}  // namespace pen::api
