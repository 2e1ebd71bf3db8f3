/* What lanes.h defines, for the next instruction set. */
#undef V
#undef VECTORS
#undef WIDTH
#undef TILE_ROWS
#undef TILE_COLUMNS
#undef LOAD
#undef ZERO
#undef FMA
#undef MUL
#undef HELD
