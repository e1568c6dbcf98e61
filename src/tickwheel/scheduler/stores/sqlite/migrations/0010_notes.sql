-- What the handler of an attempt noted last, such as a short result.
ALTER TABLE tickwheel_history ADD COLUMN note TEXT;
