#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace misfire::cli {

/// Writes to standard output; a failure is found by check_output.
void print(std::string_view text);
/// @throws Error{no_space, io} if something printed could not be written
void check_output();

/// Columns as wide as their widest cell, two spaces between them; the last is not padded.
std::string columns(const std::vector<std::vector<std::string>>& rows, int indent = 0);

/// "  label     text", wrapped to the terminal, at a margin of 12. Empty text gives nothing.
std::string field(std::string_view label, std::string_view text);
std::string list_field(std::string_view label, const std::vector<std::string>& items);

/// Columns that text may take on standard output.
int page_width();
/// Whether standard output wants colour.
bool page_colour();

}  // namespace misfire::cli
