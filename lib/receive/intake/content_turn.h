#pragma once
/// Limits how much content of one client is scanned before other sessions run.
///
/// Use:     ContentTurn turn(loop, scans, body.content());
///          taken = co_await turn.feed(scanner, stream.buffered());   // feeds the beginning, as much as fits one turn
/// Rules:   content without checks is fed by bytes. With look-ups for each line the pieces are small, and others have
///          their turn after kTime of processor time. Very long fields, and for a while all content after a slow
///          look-up, go to threads that do nothing else (a pool of their own).
/// Errors:  none; the scanner keeps what is wrong with the content.
/// Thread:  the loop's.
#include "lib/base/async/borrowed.h"
#include "lib/base/processor_time.h"
#include "lib/receive/intake/content.h"

namespace pen::intake {

class ContentTurn {
 public:
  ContentTurn(async::Loop& loop, async::HandlerPool& pool, ContentBuilder& content)
      : loop_(loop), pool_(pool), content_(content) {}

  /// Returns how many bytes were taken: at least one, unless the content had ended.
  template <class Scanner>
  async::Task<std::size_t> feed(Scanner& scanner, std::string_view text) {
    if (!content_.checked()) {
      const std::size_t taken = scan(scanner, text);
      if ((bytes_ += taken) > kBytes) co_await end();
      co_return taken;
    }
    if (content_.slow()) {
      const auto away = [&] { return scan(scanner, text.substr(0, kPieceAway)); };
      co_return co_await async::run_borrowing(pool_, away);
    }
    const auto before = processor_time();
    const std::size_t taken = scan(scanner, text.substr(0, kPiece));
    const auto spent = processor_time() - before;
    if (spent > kSlow) content_.found_slow();
    if ((time_ += spent) > kTime) co_await end();
    co_return taken;
  }

 private:
  static constexpr std::size_t kBytes = 256 * 1024;
  static constexpr std::size_t kPiece = 1024;
  static constexpr std::size_t kPieceAway = 4096;
  static constexpr std::chrono::microseconds kTime{300};
  static constexpr std::chrono::microseconds kSlow{1000};

  std::size_t scan(mail::DataScanner& scanner, std::string_view text) { return scanner.feed(text, content_); }
  std::size_t scan(mail::BdatScanner& scanner, std::string_view text) {
    scanner.feed(text, content_);
    return text.size();
  }
  async::Task<void> end() {
    bytes_ = 0;
    time_ = {};
    return loop_.yield();
  }

  async::Loop& loop_;
  async::HandlerPool& pool_;
  ContentBuilder& content_;
  std::size_t bytes_ = 0;
  std::chrono::nanoseconds time_{0};
};

}  // namespace pen::intake
