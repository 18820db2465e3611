#pragma once
/// What pentop puts on the screen: lines of text with styles, for any size. The keys change a ViewState.
///
/// Use:     for (const TopLine& line : draw(before, now, state, {.width = 80, .height = 24})) …
///          state.key('s', now);
/// Sizes:   from 40 columns and 10 lines on; what does not fit is left out from the right and from below.
/// Pure but for the local time zone; any thread.
#include <string>
#include <vector>

#include "tools/top_data.h"

namespace pen::tools {

enum class TopStyle : std::uint8_t { plain, bold, dim, good, warn, bad, chosen };
struct TopSpan {
  TopStyle style = TopStyle::plain;
  std::string text;  // printable ASCII
};
using TopLine = std::vector<TopSpan>;
std::string plain_text(const TopLine& line);

struct TopSize {
  std::size_t width = 80, height = 24;
};

/// Keys that are no characters.
enum class TopKey : int { up = 1000, down, page_up, page_down, home, end, enter, escape, backspace };

struct TopState {
  enum class Screen : std::uint8_t { destinations, messages, destination, message, help };
  enum class Sort : std::uint8_t { busiest, slowest, failures, next_try, name };
  Screen screen = Screen::destinations;
  Sort sort = Sort::busiest;
  std::string filter;   // part of a name or of a reason
  bool typing = false;  // the filter is being typed
  std::size_t cursor = 0, scroll = 0;
  std::string subject;  // the key of the destination, the id of the message
  std::string detail;   // what is known of the message; empty: nothing yet
  bool quit = false;
  bool wants_detail = false;  // the source is to tell of `subject`

  /// A character or a TopKey.
  void key(int key, const TopSnapshot& now);
};

/// Those that fit the filter, in order.
std::vector<const views::Seen*> shown_destinations(const TopSnapshot& now, const TopState& state);
std::vector<const TopMessage*> shown_messages(const TopSnapshot& now, const TopState& state);

/// As many lines as the size has, or fewer. height 0: as many as there are, and no line of keys.
std::vector<TopLine> draw(const TopSnapshot& before, const TopSnapshot& now, const TopState& state, TopSize size);

}  // namespace pen::tools
