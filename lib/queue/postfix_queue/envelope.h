#pragma once
/// A message of Postfix's queue as an envelope of ours.
///
/// Use:     auto taken = envelope_of(file, id);        // without the content's facts
///          ContentTaker content(replace_bare_cr, [&](std::string_view stored) { … });
///          read_queue_file(bytes, content.sink());  taken.envelope.body = content.finish();
/// Rules:   recipients that are done are left out, in the order of the file otherwise. ORCPT becomes xtext again.
///          Addresses, names and ids that could not come in over SMTP make the message one that is not taken.
/// Pure; any thread.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/mail/envelope.h"
#include "lib/mail/header.h"
#include "lib/mail/wire.h"
#include "lib/queue/postfix_queue/queue_file.h"

namespace pen::postfix_queue {

struct Taken {
  mail::Envelope envelope;
  std::vector<std::size_t> from;  // of each recipient: its place in QueueFile::recipients
  std::vector<std::string> lost;  // what of the message has no equal here, as parts of a sentence
};
/// Errors: damaged (a field that no mail may have), with what it is. No recipients: all are done.
Result<Taken> envelope_of(const QueueFile& file, std::string queue_id);

/// Brings content into the stored form, and finds its facts.
class ContentTaker {
 public:
  using Write = std::function<void(std::string_view)>;
  ContentTaker(bool replace_bare_cr, Write write)
      : scanner_(mail::WirePolicy{.replace_bare_cr = replace_bare_cr}), write_(std::move(write)), lines_{*this} {}
  ContentTaker(const ContentTaker&) = delete;
  ContentTaker& operator=(const ContentTaker&) = delete;

  ContentSink sink() {
    return [this](std::string_view part, bool line_ends) { take(part, line_ends); };
  }
  /// After the last line.
  mail::BodyFacts finish();
  /// Of the fields seen: Message-ID: for the log, and what asks for no TLS.
  const mail::HeaderSummary& header() const { return header_.summary(); }

 private:
  void take(std::string_view part, bool line_ends);
  void text(std::string_view part);
  void line_end();
  void decide(bool whole);
  void pass(std::string_view part);

  struct Lines {
    ContentTaker& taker;
    void text(std::string_view part) { taker.text(part); }
    void line_end() { taker.line_end(); }
  };
  mail::BdatScanner scanner_;
  Write write_;
  Lines lines_;
  mail::FactsCollector facts_;
  mail::HeaderScanner header_;
  bool in_header_ = true, first_ = true;
  bool decided_ = false;  // what the line at hand is; its beginning has been passed on
  std::string line_;      // its beginning, until then
};

}  // namespace pen::postfix_queue
