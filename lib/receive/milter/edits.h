#pragma once
/// What a filter's changes do: to the header and the body at once, to the envelope when all filters agree.
///
/// Use:     Edited e = edit(draft, answered, settings, queue_id);  if (e.draft) draft = e.draft;
///          envelope.append(e.envelope);  …  envelope.apply(message, notes);
/// Rules:   milter_header_checks see each field that is added, inserted or changed. A recipient that a filter adds is
///          one like the client's: its sender hears of a failure unless the filter says NOTIFY. The null recipient, an
///          address that cannot be read and a field name that cannot be one are left out, with a note.
/// Source:  Postfix cleanup_milter.c, MILTER_README.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <vector>

#include "lib/receive/intake/effects.h"
#include "lib/receive/intake/intake.h"
#include "lib/receive/milter/client.h"
#include "lib/receive/milter/draft.h"
#include "lib/receive/milter/settings.h"

namespace pen::milter {

/// Changes of sender and recipients, in order.
class EnvelopeEdits {
 public:
  void add(Edit edit) { edits_.push_back(std::move(edit)); }
  void append(EnvelopeEdits more) {
    for (Edit& edit : more.edits_) edits_.push_back(std::move(edit));
  }
  /// Before the message's commit. Notes: what was left out.
  void apply(intake::Message& message, std::vector<std::string>& notes);

 private:
  std::vector<Edit> edits_;
};

struct Edited {
  std::shared_ptr<const Draft> draft;  // nullptr: content is unchanged
  EnvelopeEdits envelope;
  std::vector<std::string> reply;  // a field was refused, or the body could not be kept; empty: neither
  bool hold = false;
  std::string hold_reason;
  intake::Effects effects;  // of milter_header_checks
  bool told = false;        // the notes have the refusal, or that the message is discarded
  std::vector<std::string> notes;
};

/// Makes the draft that the next filter sees. message: for the notes of header checks.
Edited edit(const Draft& draft, Client::Answered answered, const Settings& settings, const intake::Message& message);

/// Why a filter holds a message, for the log.
std::string shown_reason(const Edit& quarantine);

}  // namespace pen::milter
