#pragma once
/// Content in a form that every host takes, so that nothing has to be changed on the way to one: made before a message
/// is signed, for a later change breaks the signature (RFC 6376 section 5.3).
///
/// Use:     AnyHostForm form(options);
///          form.next(piece, facts_so_far, last);     // … each piece of content, as it would be stored; the first has
///                                                     // the whole header
///          form.settle(facts);                        // of the whole; then broken(), converted()
/// Rules:   does beforehand what smtp would do: breaks lines over the limit (mail::DataForm), and converts 8-bit parts
///          (mail::SevenBitForm). Not converted is what the conversion would harm though most hosts take it: the
///          content of multipart/signed and multipart/encrypted, and a message with a DKIM signature or an ARC seal of
///          somebody else.
///          Of content beyond the first piece the facts are not known when the header must be settled: its parts are
///          converted by their labels.
/// Cost:    nothing but a look at the facts, where content is 7-bit with lines within the limit.
/// Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/mail/data_form.h"
#include "lib/mail/message_facts.h"
#include "lib/mail/seven_bit.h"
#include "lib/mail/wire.h"

namespace pen::intake {

class AnyHostForm {
 public:
  struct Options {
    std::size_t line_limit = 0;  // smtp_line_length_limit; 0: none
    bool seven_bit = false;      // not disable_mime_output_conversion
  };
  /// Of all content up to the end of a piece.
  struct Facts {
    std::uint64_t longest_line = 0;
    bool eight_bit_body = false;
  };
  explicit AnyHostForm(Options options) : options_(options) {}
  /// Before next(): 8-bit parts stay as they are.
  void keep_eight_bit() { options_.seven_bit = false; }
  /// Whether no line of it would be broken.
  bool lines_fit(Facts facts) const { return options_.line_limit == 0 || facts.longest_line <= options_.line_limit; }
  void next(std::string& piece, Facts so_far, bool last);
  void settle(mail::BodyFacts& facts) &&;
  /// Lines that were broken.
  std::uint64_t broken() const { return breaks_ ? breaks_->broken() : 0; }
  bool converted() const { return seven_bit_.has_value(); }

 private:
  void begin(std::string_view piece, bool eight_bit_body, bool last);
  void convert(std::string& piece, bool last);
  void break_lines(std::string& piece);

  Options options_;
  bool begun_ = false;
  std::optional<mail::SevenBitForm> seven_bit_;
  mail::FactsCollector facts_;  // of converted content
  mail::BdatScanner scanner_{{.replace_bare_cr = false}};
  std::optional<mail::DataForm> breaks_;
  std::size_t column_ = 0;  // of the line that is not ended
};

}  // namespace pen::intake
