#include "pickup/submit_server.h"

#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::pickup {
namespace {

constexpr seconds kAnswerTime{10};
constexpr std::size_t kMaxAnswer = 400;

}  // namespace

/// A connection's place among all and among those of its user.
class SubmitServer::Guest {
 public:
  Guest(SubmitServer& server, uid_t uid) : server_(server), uid_(uid) {
    std::size_t& of_one = server.of_user_[uid];
    welcome_ = server.open_ < kMost && of_one < kMostOfOne;
    ++server.open_;
    ++of_one;
  }
  ~Guest() {
    --server_.open_;
    const auto at = server_.of_user_.find(uid_);
    if (--at->second == 0) server_.of_user_.erase(at);
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  bool welcome() const { return welcome_; }

 private:
  SubmitServer& server_;
  uid_t uid_;
  bool welcome_ = false;
};

async::Task<void> SubmitServer::serve(std::shared_ptr<SubmitServer> self, async::Stream stream) {
  const auto peer = async::peer_credentials(stream.fd());
  if (!peer) {
    log::warning("submission by socket: {}", peer.error().message());
    co_return;
  }
  const uid_t uid = peer->uid;
  const Guest guest(*self, uid);
  Answer answer{EX_TEMPFAIL, "too many submissions at once: try again later"};
  if (guest.welcome()) answer = co_await self->take(&stream, uid);
  if (answer.code != EX_OK) {
    ++self->counts_.refused;
    log::warning("submission by socket: uid={}: {}", uid, answer.text);
  }
  stream.write(fmt::format("{} {}\n", answer.code, printable(answer.text, kMaxAnswer)));
  // A client that has gone does not learn what it did not wait for.
  (void)co_await stream.flush({.deadline = self->loop_.now() + kAnswerTime});
  stream.close();
}

async::Task<Result<std::string>> SubmitServer::piece(async::Stream* stream, std::size_t most, SteadyTime end) {
  const auto until = [&] { return async::Until{.deadline = std::min(loop_.now() + options_.idle, end)}; };
  PEN_CO_TRY_ASSIGN(const std::string_view raw, co_await stream->read_exact(sizeof(std::uint32_t), until()));
  const std::size_t size = load_le<std::uint32_t>(std::as_bytes(std::span(raw)).data());
  if (size > most) co_return fail(submission::FormatError::damaged, "a piece is too long");
  if (size == 0) co_return std::string();
  PEN_CO_TRY_ASSIGN(const std::string_view text, co_await stream->read_exact(size, until()));
  co_return std::string(text);
}

async::Task<SubmitServer::Answer> SubmitServer::take(async::Stream* stream, uid_t uid) {
  const SteadyTime end = loop_.now() + options_.whole;
  const auto envelope = co_await piece(stream, submission::kMaxEnvelope, end);
  if (!envelope) co_return Answer{EX_DATAERR, "not a whole message: " + envelope.error().message()};
  if (std::ranges::find(options_.programs, uid) != options_.programs.end())
    co_return Answer{EX_NOPERM, "the account of the mail system's own programs submits nothing"};
  auto submission = submission::decode_submission(*envelope, false);
  if (!submission) co_return Answer{EX_DATAERR, submission.error().message()};
  const auto refused = co_await options_.refusal(uid, submission->sender);
  if (!refused) co_return Answer{EX_TEMPFAIL, refused.error().message()};
  if (!refused->empty()) co_return Answer{EX_NOPERM, *refused};
  submission->arrival = loop_.clock().wall_now();
  submission->submitter = std::uint64_t{uid} + 1;
  // Ids are the loop's: some more than one, for names that are taken.
  constexpr int kIds = 8;
  auto ids = std::make_shared<std::vector<std::string>>();
  for (int i = 0; i < kIds; ++i) ids->push_back(options_.next_id());
  auto created =
      co_await pool_.run([directory = options_.drop_directory, mail = *std::move(submission), ids]() -> Result<Writer> {
        const auto next = [&ids] {
          std::string id = ids->back();
          if (ids->size() > 1) ids->pop_back();
          return id;
        };
        PEN_TRY_ASSIGN(auto made, submission::DropWriter::create(directory, mail, next));
        return Writer(std::move(made));
      });
  if (!created) co_return Answer{EX_TEMPFAIL, "message not taken: " + created.error().message()};
  Writer writer = *std::move(created);
  const Answer answer = co_await take_content(stream, writer, end);
  // An unfinished file is removed, which takes time.
  co_await pool_.run([last = std::exchange(writer, nullptr)]() mutable {
    last.reset();
    return true;
  });
  if (answer.code == EX_OK) {
    ++counts_.taken;
    options_.taken();
  }
  co_return answer;
}

async::Task<SubmitServer::Answer> SubmitServer::take_content(async::Stream* stream, Writer writer, SteadyTime end) {
  for (;;) {
    auto text = co_await piece(stream, submission::kMaxPiece, end);
    if (!text) co_return Answer{EX_DATAERR, "not a whole message: " + text.error().message()};
    const bool last = text->empty();
    if (options_.size_limit != 0 && writer->content_size() + text->size() > options_.size_limit)
      co_return Answer{EX_UNAVAILABLE,
                       fmt::format("message too large: message_size_limit is {} bytes", options_.size_limit)};
    const auto done = co_await pool_.run(
        [writer, last, bytes = *std::move(text)] { return last ? writer->finish() : writer->append(bytes); });
    if (!done) co_return Answer{EX_TEMPFAIL, "message not taken: " + done.error().message()};
    if (last) co_return Answer{EX_OK, writer->queue_id()};
  }
}

}  // namespace pen::pickup
